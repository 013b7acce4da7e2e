"""Different results and histories that are meant, and what more draws brought to light."""

from .exempt import Exempt, accepts, refuses

EXEMPT = [
    Exempt(
        ("any", "all"),
        "shape",
        r"",
        "dim=() reduces all dimensions, as in sum(); PyTorch's any and all reduce none then",
        program=r"(\(\)|\[\])",
    ),
    Exempt(
        ("var", "std", "var_mean", "std_mean"),
        "grad",
        r"",
        "the same for gradients: with dim=() PyTorch divides by the size of no dimension",
        program=r"(\(\)|\[\])",
    ),
    Exempt(
        ("hardsigmoid", "celu", "selu", "elu"),
        "grad|second",
        r"\d, not",
        "PyTorch rounds constants of the gradient to float32",
        near=1e-6,
    ),
    Exempt(
        ("gaussian_nll_loss",),
        "value|grad",
        r"\d, not",
        "operands of several dtypes are promoted before their difference is taken",
        usual=False,
        program=r"dtype=m\.(\w+).*dtype=m\.(?!\1\b)",
        near=5e-3,
    ),
    Exempt(
        ("hinge_embedding_loss",),
        "dtype",
        r"float32, not (u?int|bool)",
        "the loss of integers is a float, as every loss",
    ),
    Exempt(
        ("bincount", "trapezoid", "trapz", "cdist"),
        "dtype",
        r"",
        "an empty result has the dtype that any other would have",
        program=r"m\.zeros\(",
    ),
    Exempt(
        ("multi_margin_loss", "multilabel_soft_margin_loss"),
        "value",
        r"nan, not",
        "the mean of nothing is NaN, as of other losses",
    ),
    Exempt(
        ("linspace", "logspace", "arange"),
        "value|shape",
        r"",
        "numbers are calculated exactly and converted once; PyTorch cuts the ends to integers first, "
        "and overflows for unsigned ones",
        program=r"dtype=m\.u?int",
    ),
    Exempt(
        ("softsign", "cosine_embedding_loss", "cosine_similarity"),
        "value",
        r"",
        "integers become floats before anything can overflow",
        program=r"-?9223372036854775807|32767|128|m\.uint8",
    ),
    Exempt(
        ("baddbmm", "addbmm", "bilinear", "chain_matmul", "std_mean", "std", "cdist"),
        "value|grad",
        r"",
        "infinities: the sums meet them in another order, or skip products with 0 that PyTorch takes",
        program=r"(inf|nan|1e\+38|1e\+300)",
    ),
    Exempt(
        ("linalg_matrix_rank",),
        "value",
        r"\d, not \d",
        "below a tolerance of 0 what rounding leaves of singular values counts, which depends on the "
        "LAPACK and the processor",
        program=r"matrix_rank\(.*-\d",
        usual=False,
    ),
    Exempt(
        ("soft_margin_loss",),
        "value",
        r"not inf",
        "does not overflow in between",
    ),
    Exempt(
        ("divide", "div", "true_divide"),
        "grad",
        r"nan, not",
        "NaN at a division by 0, although the rounded quotient is flat",
        program=r"rounding_mode",
    ),
]

EXEMPT += [
    Exempt(
        tuple(
            "eq_ ne_ not_equal_ lt_ less_ le_ less_equal_ gt_ greater_ ge_ greater_equal_".split()
        ),
        "grad",
        r"of b: None",
        "a comparison has no gradient for its other operand, in place as out of place",
    ),
    Exempt(
        ("logical_not_", "logical_and_", "logical_or_", "logical_xor_"),
        "grad",
        r"gradient of a.*: -?0\.0, not",
        "PyTorch passes the gradient through to a value that was written over",
    ),
    Exempt(
        ("hardtanh_",),
        "refuses",
        r"expected min_val to be at most max_val",
        "PyTorch checks in hardtanh, and not in its in-place form",
    ),
]


EXEMPT += [
    accepts(
        r"Subtraction, the `-` operator",
        "bools are 0 and 1 inside of a formula; only a difference that is spelled out is refused",
    ),
    accepts(
        r"ZeroDivisionError",
        "a kernel raises no error for an element: the quotient of integers by 0 is 0",
        *("remainder", "floor_divide", "divide", "div", "fmod"),
    ),
    accepts(
        r"Bad in-place call|input dtype should be either floating",
        "the dtype of the sums is converted to the tensor's",
        *("cumsum_", "dist"),
    ),
    accepts(
        r"refer to a single memory location",
        "the result is complete before out= is written, so out= may be the input itself",
        *("bernoulli", "gather", "addr", "cat", "concat", "concatenate", "column_stack", "cross"),
        *("row_stack", "vstack", "hstack", "dstack", "masked_select"),
    ),
    accepts(
        r"Dimension specified as -1 but|eps must be non-negative|same dimension as input"
        r"|stride\(-1\) must be 1",
        "nothing depends on it in this call",
        *("unique_consecutive", "cosine_similarity", "diff", "view"),
    ),
    accepts(
        r"all elements of (input|target) should be between",
        "elements are not looked at when that would wait for the device: the loss is NaN",
        "binary_cross_entropy",
    ),
    refuses(
        r"shares a part of its memory",
        "an out= that is a part of an argument is a mistake more often than not",
    ),
    refuses(
        r"^ShapeError",
        "shapes are checked although there is nothing to compute",
        program=r"m\.zeros\(\(",
    ),
    refuses(
        r"target of shape \[1\]|index \[\]|source of shape \[\]|got size",
        "a tensor of one element and one of no dimension are not the same shape",
        *("nll_loss", "scatter_", "scatter_reduce_", "index_copy", "bernoulli_"),
    ),
    refuses(
        r"^(DType|Index)Error",
        "operands of products and distances are of one dtype and have the dimension in question",
        *("inner", "cosine_similarity", "linalg_vecdot"),
    ),
    refuses(r"use randint for integers", "as above", "randn_like", "randn"),
    refuses(r"", "one bool is no shape", "unravel_index", program=r"True"),
    Exempt(
        ("unique", "unique_consecutive", "bincount", "bernoulli", "vander"),
        "history",
        r"requires_grad: False",
        "no gradient is defined, so the result does not claim one; PyTorch's backward raises",
    ),
    Exempt(
        (
            *("ge_", "greater_", "less_equal_", "gt_", "lt_", "le_", "eq_", "ne_", "less_"),
            *("not_equal_", "greater_equal_"),
        ),
        "history|grad",
        r"requires_grad: False|of [ab]: None",
        "a comparison has no gradient for what is compared with",
    ),
    Exempt(
        ("addmm", "addmv", "addr", "addbmm", "baddbmm"),
        "grad|history",
        r"",
        "with beta = 0 the input is ignored, NaN and history included",
        program=r"beta=(-?0(\.0)?|False)\b",
    ),
    Exempt(
        ("addmv",),
        "shape",
        r"",
        "the shape of a product with an empty matrix is that of any other product",
        program=r"m\.zeros\(",
    ),
    Exempt(
        ("any", "all"),
        "dtype|value",
        r"",
        "truth is a bool, of bytes too; uint8 was its old name",
        program=r"uint8",
    ),
    Exempt(
        ("lgamma", "digamma", "polygamma"),
        "value|grad|second",
        r"(inf|nan), not|not (inf|nan|-inf)",
        "exact at the poles, where PyTorch's recurrences give large numbers",
    ),
    Exempt(
        ("trapz", "trapezoid"),
        "grad",
        r"",
        "infinities: inf - inf of the two neighbours cancels",
        program=r"inf",
    ),
    Exempt(
        ("diag", "scaled_dot_product_attention"),
        "grad",
        r"PyTorch's is None",
        "zeros of an empty shape, where PyTorch forgets the input",
    ),
    Exempt(
        ("triplet_margin_loss", "cov", "scaled_dot_product_attention"),
        "value",
        r"",
        "at the ends of a dtype: nothing overflows in between, and a masked or infinite element "
        "does not spoil its neighbours",
        program=r"(inf|nan|1e\+38|uint8|922337203685477580[78])",
    ),
    Exempt(
        ("binary_cross_entropy_with_logits",),
        "value",
        r"",
        "calculated in the dtype of the result, PyTorch's in parts in float32",
        program=r"1e\+38",
    ),
    Exempt(
        ("dstack", "matrix_power", "cov"),
        "value|argument",
        r"",
        "PyTorch reads what it has begun to write, or loses out=",
        program=r"out = |a\[\.\.\., ::2\]\.cov",
    ),
    Exempt(
        ("l1_loss",),
        "value",
        r"",
        "the mean is over all weights of a broadcast loss",
        program=r"weight=",
    ),
    Exempt(
        ("unique_consecutive",),
        "shape",
        r"result\[[12]\]",
        "counts and places are as in unique()",
    ),
]

EXEMPT += [
    refuses(
        r"ShapeError",
        "x has one number for each along dim, or broadcasts with y",
        "trapz",
        "trapezoid",
    ),
]

# What gradients of all floating-point dtypes, and the tighter entries above, brought to light.
EXEMPT += [
    Exempt(
        (
            "linalg_vector_norm",
            "linalg_norm",
            "norm",
            "triplet_margin_loss",
            "pairwise_distance",
            "dist",
        ),
        "grad",
        r"given; PyTorch's is None",
        "the gradient of a count is zeros, where PyTorch has none",
        program=r"\b0(\.0)?\b",
    ),
    Exempt(
        ("var", "std", "var_mean", "std_mean"),
        "grad",
        r"(inf|nan), not",
        "a correction of all elements or more is a division by 0",
        program=r"correction=",
    ),
    Exempt(
        ("sinc",),
        "second",
        r"not nan",
        "at 0 it is -pi^2 / 3 times the cotangent; PyTorch's is NaN",
    ),
    Exempt(
        ("copysign", "arctan2", "atan2", "cosine_similarity", "logit", "addcdiv", "float_power_"),
        "second",
        r"not nan",
        "PyTorch multiplies infinity by 0 at an edge of the definition",
    ),
    Exempt(
        ("vander",),
        "history",
        r"requires_grad: True",
        "also without elements",
        program=r"m\.zeros\(\(0,\)",
    ),
    Exempt(
        ("linspace",),
        "value",
        r"inf, not nan",
        "counted from the start: to infinity all but the first are infinite",
        program=r"inf",
    ),
    refuses(
        r"a leaf tensor that requires grad cannot be changed",
        "a write into a leaf is refused, whatever is written",
        program=r"\nout = [a-p]\b",
    ),
    accepts(
        r"input tensor must be (non-empty|either float or double dtype)",
        "quantiles of nothing are nothing, and those of 16 bits are calculated in float32",
        *("quantile", "nanquantile"),
    ),
]

# What more draws met. Whether the usual ones do is chance.
_MORE = [
    Exempt(
        ("gcd", "gcd_", "lcm", "lcm_"),
        "value",
        r"",
        "the least integer has no absolute value: PyTorch's divisor of it is below 0",
        program=r"-9223372036854775808|-128|-32768|-2147483648",
    ),
    Exempt(
        ("elu", "celu", "prelu", "huber_loss"),
        "second",
        r"",
        "which side an element on the edge of two pieces belongs to",
        program=r"0\.0\b|0\.5\b",
    ),
    Exempt(
        ("logit", "pow"), "second", r"-?inf, not nan", "PyTorch multiplies infinity by 0 at an edge"
    ),
    Exempt(
        ("kthvalue", "quantile", "nanquantile", "msort", "multi_margin_loss"),
        "grad",
        r"value",
        "which of equal elements has the gradient",
        program=r"0\.5|1\.0",
    ),
    Exempt(
        ("scatter_reduce",),
        "grad",
        r"value",
        "with include_self=False what was there has no share; PyTorch counts it where it is equal",
        program=r"include_self=False",
    ),
    Exempt(
        ("trapz", "trapezoid"), "history", r"requires_grad: True", "also of fewer than two elements"
    ),
    Exempt(("vander",), "history", r"requires_grad: True", "also of columns without x"),
    Exempt(
        ("trapz", "trapezoid", "unique", "unique_consecutive", "mode", "gelu", "addmm", "matmul")
        + ("bmm", "inner", "addmv", "mean", "cosine_similarity", "cross_entropy", "layer_norm")
        + ("celu",),
        "value|grad",
        r"",
        "infinities and NaN: nothing is added that cancels again, and sums meet them in another order",
        program=r"\b(inf|nan|1e\+38|1e\+300)\b",
    ),
    Exempt(
        ("local_response_norm",),
        "value|dtype",
        r"",
        "of integers: PyTorch drops the fraction of the mean of squares, and keeps empty ones",
        program=r"int64|int32|int16|int8|bool",
    ),
    Exempt(
        ("trapz", "trapezoid"),
        "value",
        r"",
        "PyTorch rounds to 16 bits before",
        program="float16",
        near=1e-2,
    ),
    Exempt(
        ("logspace", "linspace"),
        "value",
        r"nan, not|inf, not nan",
        "PyTorch counts from both ends to the middle",
        program=r"inf",
    ),
    Exempt(
        ("logspace", "linspace"),
        "shape",
        r"\(0,\), not",
        "out= gets the result's shape, also that of nothing",
        program=r"out",
    ),
    Exempt(
        ("corrcoef", "cosine_embedding_loss", "cosine_similarity", "gaussian_nll_loss"),
        "value",
        r"",
        "integers become floats before anything can overflow",
        program=r"214748364[78]|922337203685477580[78]",
    ),
    Exempt(
        ("triplet_margin_loss", "cosine_similarity", "pairwise_distance"),
        "value",
        r"",
        "integers become floats, and what is of several dtypes is calculated in the widest",
        program=r"m\.(u?int|float32)",
        near=1e-2,
    ),
    Exempt(
        ("pairwise_distance", "trapz", "trapezoid", "poisson_nll_loss"),
        "value",
        r"",
        "integers become floats before anything can overflow",
        program=r"m\.uint8|2147483648|9223372036854775807|9223372036854775808",
    ),
    Exempt(
        ("median", "nanmedian"),
        "value",
        r"",
        "PyTorch's is another at each run where elements of 16 bits are expanded",
        program=r"expand",
    ),
    Exempt(
        ("sub", "rsub"),
        "value|grad",
        r"",
        "a factor of -2^63 is taken away; PyTorch's negative of it is itself",
        program=r"9223372036854775808",
    ),
    Exempt(
        ("searchsorted", "bucketize"),
        "value",
        r"",
        "a number below 0 is below every uint8",
        program=r"m\.uint8.*-\d",
    ),
    Exempt(("polygamma",), "value", r"", "PyTorch's is right to 1e-9", near=1e-8),
    Exempt(
        ("histc",),
        "value",
        r"\b[0-9]\.0, not",
        "edges of bins are calculated in float32; PyTorch's of float16 in 16 bits",
        program=r"float16",
    ),
    Exempt(
        ("std", "var"),
        "value|grad",
        r"\b0\.0, not",
        "exactly 0 where all elements are equal",
        program=r"expand",
    ),
    Exempt(
        ("var_mean", "std_mean"),
        "value",
        r"inf, not nan",
        "a mean that meets an infinity is one",
        program=r"inf",
    ),
    Exempt(
        ("cov",),
        "argument",
        r"not 0\.0",
        "PyTorch writes into its argument",
        program=r"weights",
    ),
    Exempt(
        ("addcmul", "addcdiv"),
        "dtype|refuses",
        r"float32",
        "a fraction makes a float; PyTorch cuts it for integers",
    ),
    Exempt(
        ("huber_loss", "poisson_nll_loss", "pairwise_distance", "einsum", "dist")
        + ("binary_cross_entropy_with_logits",),
        "dtype",
        r"",
        "results have the dtype that the operands are promoted to",
    ),
    Exempt(
        ("binary_cross_entropy_with_logits",),
        "value",
        r"",
        "calculated in the dtype of the result, PyTorch's in parts in float32",
        program=r"float32.*float64|float64.*float32",
        near=1e-5,
    ),
    Exempt(
        ("block_diag",),
        "grad",
        r"value",
        "PyTorch reads another's gradient where a block is empty",
        program=r"m\.zeros",
    ),
    accepts(
        r"Expected 2D or 3D input|can't be cast|must have the same size|only supports a 0-dimensional"
        r"|must be 1D or 2D|must be of length 1 or 2|without overflow|Dimension out of range"
        r"|must be tuple of (ints|Tensors), not Tensor|must be in range|must match the size"
        r"|one `x` value|only support dx as a real|out of bounds for double|start out of range"
        r"|diff expects the shape|repeated dim|must be a matrix|boolean masks|not a valid value"
        r"|0D target tensor|inconsistent tensor size|must be Number, not Tensor",
        "what PyTorch refuses by a rule of its own and is taken here",
        *("dropout1d", "huber_loss", "index_fill", "linalg_norm", "logspace", "linspace", "mode"),
        *("new_ones", "new_zeros", "pow", "sub", "subtract", "softshrink", "trapz", "trapezoid"),
        *("uniform_", "diff", "moveaxis", "linear", "masked_fill", "hinge_embedding_loss"),
        *("index_put",),
        *("full_like", "new_full"),
        *("threshold", "full", "column_stack", "vstack", "cosine_embedding_loss", "linalg_vecdot"),
    ),
    accepts(
        r"not NoneType",
        "None stands for a default",
        *("uniform_", "histc", "hardshrink", "pairwise_distance", "hinge_embedding_loss"),
    ),
    accepts(
        r"invalid Poisson rate",
        "elements are not looked at when that would wait for the device",
        "poisson",
    ),
    refuses(
        r"got fweights of shape|got tau|expected finite ends|expected a floating-point dtype"
        r"|expected an integer|expected sizes of at least 1|is out of bounds|label_smoothing"
        r"|expected a positive number|expected all to have the same dtype|got input of shape \[\]"
        r"|expected two inputs of one shape|use randint",
        "arguments are checked although there is nothing to compute, or PyTorch reads them otherwise",
        *("cov", "gumbel_softmax", "histc", "log_softmax", "softmax", "softmin", "masked_fill"),
        *("unravel_index", "take_along_dim", "cross_entropy", "triplet_margin_loss", "einsum"),
        *("multi_margin_loss", "cosine_embedding_loss", "bernoulli"),
    ),
    refuses(r"that requires grad", "a number has no gradient", "logspace", "linspace"),
    refuses(
        r"expected a contiguous one",
        "gradients of views by strides are those of contiguous tensors",
        "as_strided",
    ),
    refuses(
        r"bool tensor for a result of int64",
        "bools times whole numbers are whole numbers",
        *("addr", "addbmm", "cumsum"),
    ),
    refuses(r"pf\.full: got", "an operand beyond the dtype", "bitwise_or", "bitwise_and"),
    Exempt(
        ("linalg_cond",),
        "value",
        r": (inf|\d{6,}\.\d*|[\d.]+e\+\d+), not (inf|\d{6,}\.\d*|[\d.]+e\+\d+)$",
        "the least singular value of a matrix without full rank is what roundings of this LAPACK leave",
    ),
]
for _entry in _MORE:
    _entry.usual = False
EXEMPT += _MORE

# Numbers that an integer dtype cannot hold. Whether a draw has one is chance: `usual` is False.
EXEMPT += [
    Exempt(
        (
            *("ge", "gt", "le", "lt", "eq", "ne", "less", "greater", "less_equal", "greater_equal"),
            *("not_equal", "floor_divide", "remainder", "fmod"),
        ),
        "value",
        r"",
        "a number beyond the dtype is taken as it is; PyTorch lets it wrap",
        usual=False,
        program=r"m\.u?int.*\nr = [^\n]*\d{3}|m\.uint8.*\nr = [^\n]*-\d",
    ),
    Exempt(
        (
            *(
                "floor_divide",
                "remainder",
                "fmod",
                "clip",
                "clamp",
                "clamp_min",
                "clamp_max",
                "div",
            ),
            *("divide", "maximum", "minimum", "fmax", "fmin", "heaviside"),
        ),
        "refuses",
        r"(DType|Value)Error.*int",
        "division by, bounds of, and the greater of numbers beyond the dtype are refused; PyTorch "
        "lets them wrap",
        usual=False,
    ),
]
