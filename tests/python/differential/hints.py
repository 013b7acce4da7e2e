"""What a schema does not say. An operation without an entry is drawn from its types alone."""

# Letters are sizes that belong together, `*` leading dimensions in common, `?` may broadcast.
SHAPES = {
    "mm": "ik,kj",
    "int_mm": "ik,kj",
    "_int_mm": "ik,kj",
    "_scaled_mm": "ik,kj",
    "bmm": "bik,bkj",
    "mv": "ik,k",
    "dot": "k,k",
    "vdot": "k,k",
    "outer": "i,j",
    "ger": "i,j",
    "inner": "*k,k",
    "kron": "*ij,kl",
    "addmm": "ij?,ik,kj",
    "addmv": "i?,ik,k",
    "addr": "ij?,i,j",
    "addbmm": "ij?,bik,bkj",
    "baddbmm": "bij?,bik,bkj",
    "linear": "*i,oi,o",
    "bilinear": "*i,*j,oij,o",
    "matmul": "*ik,*kj",
    "linalg_matmul": "*ik,*kj",
    "chain_matmul": "ik,kj,jl",
    "linalg_multi_dot": "ik,kj,jl",
    "matrix_power": "*ii",
    "linalg_matrix_power": "*ii",
    "cross": "*3,*3",
    "linalg_cross": "*3,*3",
    "trace": "ij",
    "vander": "i",
    "combinations": "i",
    "bincount": "i,i",
    "corrcoef": "ij",
    "cov": "ij,j,j",
    "cdist": "*ik,*jk",
    "pdist": "ik",
    "scaled_dot_product_attention": "bhid,bhjd,bhjd,ij",
    "cross_entropy": "nc,n,c",
    "nll_loss": "nc,n,c",
    "multi_margin_loss": "nc,n,c",
    "multilabel_soft_margin_loss": "nc,nc,c",
    "cosine_embedding_loss": "nc,nc,n",
    "triplet_margin_loss": "nc,nc,nc",
    "gaussian_nll_loss": "nc,nc,nc?",
    "huber_loss": "nc,nc,nc",
    "mse_loss": "nc,nc,nc",
    "l1_loss": "nc,nc,nc",
    "smooth_l1_loss": "nc,nc",
    "binary_cross_entropy": "nc,nc,nc?",
    "bce_loss": "nc,nc,nc?",
    "binary_cross_entropy_with_logits": "nc,nc,nc?,c",
    "layer_norm": "*nc,nc,nc",
    "rms_norm": "*nc,nc",
    "embedding": "*n,cd",
    "prelu": "ncd,c",
    "index_select": "*ij,k",
    "index_fill": "*ij,k,",
    "index_add": "nij,n,nij",
    "index_copy": "nij,n,nij",
    "gather": "ij,ij",
    "take_along_dim": "ij,ij",
    "scatter": "ij,ij,ij",
    "scatter_add": "ij,ij,ij",
    "scatter_reduce": "ij,ij,ij",
    "take": "ij,k",
    "put": "ij,k,k",
    "masked_fill": "ij,ij?,",
    "masked_scatter": "ij,ij?,ij",
    "masked_select": "ij,ij?",
    "searchsorted": "i,*k",
    "bucketize": "*k,i",
    "select_scatter": "nij,ij",
    "slice_scatter": "nij,nij",
    "diagonal_scatter": "ii,i",
    "repeat_interleave": "n,n",
    "unravel_index": "*k",
    "cartesian_prod": "i,j",
    "meshgrid": "i,j",
    "fill_diagonal_": "ij",
    "fill_": "*ij,",
    "bernoulli": "ij",
    "multinomial": "ij",
    "quantile": "*ij,k",
    "nanquantile": "*ij,k",
    "block_diag": "ij,kl,k",
    "histc": "*k",
    "glu": "n4",
}

# Integers: positions within dimension `dim` of the first tensor, or of another bound.
INDEX = {"index", "indices", "indexes"}
INDEX_OF = {  # (operation, parameter): what is counted
    ("take", "index"): "numel",
    ("put", "index"): "numel",
    ("put_", "index"): "numel",
    ("unravel_index", "indices"): 6,
    ("embedding", "input"): "rows of weight",
    ("cross_entropy", "target"): "classes",
    ("nll_loss", "target"): "classes",
    ("multi_margin_loss", "target"): "classes",
    ("one_hot", "input"): 6,
    ("bincount", "input"): 6,
    ("repeat_interleave", "repeats"): 4,
    ("cov", "fweights"): 5,
    ("index", "indices"): "dim",
    ("index_put", "indices"): "dim",
    ("index_put_", "indices"): "dim",
}
BOOL = {"mask", "condition"}
SORTED = {("searchsorted", "sorted_sequence"), ("bucketize", "boundaries")}
SIGNS = {  # targets of 1 and -1
    ("hinge_embedding_loss", "target"),
    ("cosine_embedding_loss", "target"),
    ("margin_ranking_loss", "target"),
    ("soft_margin_loss", "target"),
}
UNIT = {  # probabilities
    ("binary_cross_entropy", "input"),
    ("binary_cross_entropy", "target"),
    ("bce_loss", "input"),
    ("bce_loss", "target"),
    ("binary_cross_entropy_with_logits", "target"),
    ("bernoulli", "input"),
    ("bernoulli_", "p"),
    ("quantile", "q"),
    ("nanquantile", "q"),
    ("multinomial", "input"),
    ("binomial", "prob"),
    ("kl_div", "target"),
    ("logit", "input"),
}
POSITIVE = {
    ("gaussian_nll_loss", "var"),
    ("poisson_nll_loss", "target"),
    ("normal", "std"),
    ("poisson", "input"),
    ("binomial", "count"),
    ("cov", "aweights"),
}

TEXTS = {
    "reduction": ["mean", "sum", "none"],
    "reduce": ["sum", "prod", "mean", "amin", "amax", "add", "multiply"],
    "rounding_mode": ["floor", "trunc"],
    "approximate": ["none", "tanh"],
    "indexing": ["ij", "xy"],
    "side": ["left", "right"],
    "interpolation": ["linear", "lower", "higher", "nearest", "midpoint"],
    "mode": ["constant", "reflect", "replicate", "circular"],
    "padding_side": ["left", "right"],
    "compute_mode": ["use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"],
    "p": ["fro", "nuc"],
    "ord": ["fro", "nuc"],
    "equation": ["ij,jk->ik", "i,i", "ij->ji", "...ij->...ji", "ii->i", "ij,ij->", "i,j->ij"],
}

DIMS = {
    *("dim", "dim0", "dim1", "dim2", "axis", "axis0", "axis1", "start_dim", "end_dim"),
    *("dimension", "dims", "source", "destination", "dims_a", "dims_b"),
}

# Numbers by the name of the parameter; the first list is for ints, the second for floats.
INTS = {
    "steps": [0, 1, 2, 5],
    "end": [0, 1, 5, -3, 2],
    "start": [0, 1, -2, 2],
    "high": [1, 5, 10],
    "low": [0, -3, 2],
    "row": [0, 1, 3, 4],
    "col": [0, 1, 3, 5],
    "n": [0, 1, 2, 3, 5],
    "bins": [1, 4, 7, 0],
    "num_classes": [-1, 6, 7],
    "chunks": [1, 2, 3, 0],
    "step": [1, 2, 3, 0, -1],
    "length": [0, 1, 2],
    "size": [1, 2, 3, 0],
    "split_size": [1, 2, 3, 0],
    "ignore_index": [-100, 0, 1],
    "groups": [1, 2],
    "decimals": [0, 1, 2, -1, 3],
}
FLOATS = {
    "q": [0.0, 0.25, 0.5, 1.0, 0.9],
    "p": [0.0, 0.5, 1.0, 2.0, 3.0, float("inf"), 1.5],
    "ord": [0.0, 0.5, 1.0, 2.0, 3.0, float("inf"), float("-inf")],
    "eps": [1e-5, 1e-8, 0.1, 0.0],
    "rtol": [1e-5, 0.1, 0.0],
    "atol": [1e-8, 0.1, 0.0],
    "margin": [0.0, 1.0, 0.5],
    "label_smoothing": [0.0, 0.1, 1.0],
    "dropout_p": [0.0],
    "base": [2.0, 10.0],
    "tau": [1.0, 0.5],
    "lambd": [0.5, 1.0, 0.0],
    "beta": [1.0, 0.5, 2],
    "delta": [1.0, 0.5],
    "std": [1.0, 0.5],
}

OPERATORS = {  # of Python: how an operation is written with two operands, or one
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%",
    "pow": "**", "matmul": "@", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "bitwise_left_shift": "<<", "bitwise_right_shift": ">>", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "bitwise_not": "~",
}  # fmt: skip

# Which of several equal elements has the index is nobody's promise: indices are compared by what
# they point at, along `dim` of the first tensor.
TIES = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode", "msort"}

# A list of tensors is written as several arguments.
VARARGS = {"cartesian_prod", "broadcast_tensors", "meshgrid", "block_diag", "chain_matmul"}

LENGTHS = {"arange"}  # numbers say how much memory the result takes

UNDEFINED = {"empty", "empty_like", "new_empty"}  # elements hold anything
RANDOM = {"dropout1d", "dropout2d", "dropout3d"}  # and the family "random"
