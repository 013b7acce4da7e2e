"""Operations that may take more than 1.2 times PyTorch's time, and why: tools/sweep.py fails for others.

By the kind of device: {operation: reason}.
"""

_PRODUCTS = (
    "each element is summed in the order of the tiled product, so that its bits depend neither on how "
    "many rows there are nor on threads"
)
_ORDER = (
    "indices are written in their order, so that every run gives the same bits; PyTorch's atomics "
    "keep none"
)
_WIDE = "float32 is computed in float64 and rounded once"
_CASES = "all cases of the function are computed for every vector, and chosen from"
_GRADIENT = (
    "the gradient that a caller hands in is copied: what becomes of it later changes no .grad"
)
_TAILS = "rows of 1000 are no whole vectors: their last eight elements are done apart"
_CALLS = "written in several operations, each of which is a microsecond at this size"

CPU = {
    **dict.fromkeys(
        ("addmv", "addmv_", "chain_matmul", "dot", "inner", "linalg_multi_dot", "mv", "vdot"),
        _PRODUCTS,
    ),
    **dict.fromkeys(("addr", "ger", "kron", "outer"), _TAILS),
    **dict.fromkeys(("atleast_2d", "atleast_3d", "flatten", "ravel"), _GRADIENT),
    **dict.fromkeys(("erfc", "lgamma", "pow"), _CASES),
    **dict.fromkeys(("mode", "multi_margin_loss", "pdist", "polygamma"), _CALLS),
    **dict.fromkeys(
        ("take", "bincount", "index_add", "scatter_add_", "scatter_reduce_"),
        "each index is checked, and a wrong one is told",
    ),
    **dict.fromkeys(
        ("full", "full_like", "new_full", "new_ones", "ones", "ones_like", "zeros_like"),
        "a fill of 4 MB: the same stores, whose time differs by a third from run to run",
    ),
    "bitwise_right_shift": "shifts by the width and beyond are told apart",
    "trapz": "two slices are added, then summed: in two operations",
    **dict.fromkeys(
        ("masked_scatter", "masked_scatter_"), "places are numbered first, then written"
    ),
    **dict.fromkeys(("amax", "amin"), "a NaN is carried along, at a second comparison"),
    "bilinear": "the product over one input is taken first, and its values are written to memory",
    "block_diag": "each block is padded, and the blocks are joined: the result is written twice",
    "equal": "recorded as a comparison and a reduction before it is asked for: half a microsecond",
    "nll_loss": "a thousand rows are checked one by one for classes that are not there",
    "randperm": "the order of 64-bit keys, which have no ties to be settled unevenly",
    "topk": "values and places are kept together, so that equal values keep their order",
    "vander": "each power by itself, right to the last place; PyTorch multiplies them up",
}

GPU = {
    **dict.fromkeys(
        ("index_copy", "index_fill", "index_fill_", "put", "scatter", "scatter_", "scatter_add")
        + ("scatter_add_", "scatter_reduce", "scatter_reduce_", "take"),
        _ORDER,
    ),
    **dict.fromkeys(("asinh", "digamma", "lgamma", "polygamma"), _WIDE),
    **dict.fromkeys(("block_diag", "multi_margin_loss"), _CALLS),
    "cross": "operands and result are turned by one, each a copy",
    "argwhere": "the host waits for the count of what is found, and for the indices behind it",
    "histc": _CALLS,
    "randperm": "the order of 64-bit keys, which have no ties to be settled unevenly",
    "scaled_dot_product_attention": "float32 of 96 and more columns: six products of parts beside three of tf32",
}
