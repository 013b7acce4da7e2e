"""Differences that are meant."""

import math
import re
from dataclasses import dataclass, field


@dataclass
class Exempt:
    """Differences of these operations that match `pattern` are expected.

    `program` is looked for in the program: what it must have for the difference to be meant. An entry
    that none of the usual draws meets any more fails the test.
    """

    operations: tuple  # names, or () for any
    kind: str  # of the difference; several are joined by |
    pattern: str
    reason: str
    usual: bool = True  # occurs in the usual draws, or is wanted no more
    program: str = ""
    near: float = math.inf  # how far apart the two numbers may be, relative to the larger
    met: set = field(default_factory=set)

    def covers(self, case, difference):
        names = {case.op, case.op.removesuffix("_")}
        if self.operations and not names & set(self.operations):
            return False
        return (
            difference.kind in self.kind.split("|")
            and re.search(self.pattern, difference.text, re.S)
            and re.search(self.program, case.program(), re.S)
            and (self.near == math.inf or self._is_near(difference.text))
        )

    def _is_near(self, text):
        numbers = re.search(r"(\S+), not (\S+)$", text)
        got, want = (float(x) for x in numbers.groups())
        return abs(got - want) <= self.near * max(abs(got), abs(want))


# Registered names that are not drawn, and why.
NOT_DRAWN = {
    **dict.fromkeys(
        (
            *("batch_matmul", "int_mm", "expit", "expit_", "bce_loss", "vecdot"),
            *("relu6_", "silu_", "mish_", "softplus_", "softsign_", "hardswish_", "hardsigmoid_"),
            *("logsigmoid_", "tanhshrink_", "softshrink_", "hardshrink_", "gelu_", "maximum_"),
            *("minimum_", "fmax_", "fmin_", "logaddexp_", "logaddexp2_"),
        ),
        "PyTorch has no such name",
    ),
    **dict.fromkeys(
        ("_zeros_beside", "_multi_norm", "_found_nonfinite", "_warmup_cosine", "_binned_sums"),
        "internal: part of what is written in Python",
    ),
    **dict.fromkeys(
        ("_sgd", "_adamw", "_optim_step", "_clip_grad_norm_", "_clip_grad_value_"),
        "internal: behind pf.optim and nn.utils, tested there",
    ),
    **dict.fromkeys(
        ("ctc_losses", "embedding_bag"), "internal: behind nn.functional, see test_nn_rest.py"
    ),
    **dict.fromkeys(("numpy_T", "matrix_T"), "internal: the attributes T, mT"),
    **dict.fromkeys(("index", "slice"), "internal: x[...], see test_indexing_python.py"),
    "pad_sequence": "PyTorch has it in nn.utils.rnn: test_data.py",
    "tensordot": "internal: pf.tensordot is written in Python",
}
NOT_DRAWN |= dict.fromkeys(
    (
        *("max_pool2d_with_indices", "adaptive_max_pool2d", "adaptive_avg_pool2d", "avg_pool2d"),
        *("max_pool3d_with_indices", "adaptive_max_pool3d", "adaptive_avg_pool3d", "avg_pool3d"),
        *("grid_sampler", "affine_grid_generator", "im2col", "col2im"),
    ),
    "internal: behind nn.functional, see test_pooling.py and test_resampling.py",
)
_INIT = "internal: behind nn.init, random"
NOT_DRAWN |= {
    f"_init_{n}": _INIT
    for n in (
        *("uniform_", "normal_", "trunc_normal_", "constant_", "eye_", "xavier_uniform_"),
        *("xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_"),
        *("dirac_", "calculate_gain", "linear_", "embedding_"),
    )
}


# Names of PyTorch that drawn numbers say little about, and where they are compared.
ELSEWHERE = {
    **dict.fromkeys(
        (
            *("cholesky", "linalg_cholesky", "linalg_cholesky_ex", "cholesky_solve"),
            *("cholesky_inverse", "geqrf", "orgqr", "ormqr", "linalg_householder_product"),
            *(
                "qr",
                "linalg_qr",
                "svd",
                "linalg_svd",
                "linalg_eig",
                "linalg_eigvals",
                "linalg_eigh",
            ),
            *(
                "lu",
                "linalg_lu",
                "linalg_lu_factor",
                "linalg_lu_factor_ex",
                "lu_unpack",
                "lu_solve",
            ),
            *("linalg_lu_solve", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve"),
            *("linalg_lstsq",),
        ),
        "factors are determined up to signs and orders, or of definite matrices: test_linalg.py",
    ),
    **dict.fromkeys(("resize_", "resize_as_"), "new elements have any value: test_special.py"),
    "histogram": "edges must ascend: test_special.py",
    "complex": "PyTorch makes complex32 of halves, which is not here: test_complex.py",
}
NOT_DRAWN |= dict.fromkeys(
    (
        *(f"fft_{n}fft{d}" for n in ("", "i", "r", "ir", "h", "ih") for d in ("", "2", "n")),
        *("fft_fftfreq", "fft_rfftfreq", "fft_fftshift", "fft_ifftshift"),
    ),
    "in torch.fft: test_fft.py",
)
NOT_DRAWN |= dict.fromkeys(
    (
        *(f"special_bessel_{n}" for n in ("j0", "j1", "y0", "y1")),
        *(f"special_modified_bessel_{n}" for n in ("i0", "i1", "k0", "k1")),
        *("special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"),
        *(f"special_{n}" for n in ("i0e", "i1", "i1e", "spherical_bessel_j0", "airy_ai", "erfcx")),
        *(f"special_{n}" for n in ("ndtr", "ndtri", "log_ndtr", "entr", "zeta", "xlog1py")),
        *(f"special_{s}chebyshev_polynomial_{k}" for s in ("", "shifted_") for k in "tuvw"),
        *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
        *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
    ),
    "in torch.special: test_special.py",
)
NOT_DRAWN |= dict.fromkeys(
    ("gradient", "gradient_at", "histogramdd", "histogramdd_at"),
    "internal: behind functions in Python, see test_special.py",
)


def _accepts(pattern, reason, *operations, usual=True, program=""):
    return Exempt(operations, "accepts", pattern, reason, usual, program)


def _refuses(pattern, reason, *operations, usual=True, program=""):
    return Exempt(operations, "refuses", pattern, reason, usual, program)


# Operations whose arguments PyTorch takes in fewer ways.
FREER_CALLS = (
    *("argmax", "argsort", "copy_", "diagonal", "gelu", "linalg_diagonal", "prod", "split"),
    *("threshold", "true_divide", "unique", "sort", "logsumexp", "combinations"),
)

# ---- what PyFlame takes and PyTorch does not ------------------------------------------------------
EXEMPT = [
    _accepts(
        r"not implemented for|[Bb]ool(ean)? (inputs?|dtypes?)? ?(is |are )?not supported"
        r"|does not support bool|not support bool|(Long|Int|Short|Char|Byte|Bool) inputs not supp"
        r"|Unsupported input type|expected a floating point|Expected a floating point"
        r"|could not infer output dtype|on a bool tensor is not supported"
        r"|hardtanh on an unsigned type",
        "PyTorch has no kernel for that dtype on the CPU; there is one here",
    ),
    _accepts(
        r"must be Tensor, not (int|float|bool|complex)"
        r"|invalid combination of arguments - got \((int|float|bool), (other=)?Tensor",
        "a number may stand for any operand of a pointwise operation, the first one too",
    ),
    _accepts(
        r"must be tuple of ints, not int|must be tuple of ints, but found element of type",
        "a number stands for a tuple of one wherever sizes or dimensions are expected",
    ),
    _accepts(
        r"functions with out=... arguments don't support automatic diff",
        "out= is an in-place write, with a history like any other",
    ),
    _accepts(
        r"expected Tensor as element 0 in argument 0, but got (list|tuple)",
        "several tensors may be passed one by one or as one list, everywhere",
    ),
    _accepts(
        r"dtype|scalar type|scalar_type|canCast|can't be cast|type promoting"
        r"|non-boolean outputs|bool tensor for result|multinomial expects Long",
        "out= is of any dtype that can hold the kind of result: bool, integer or float",
        program=r"(^|\n)out = ",
    ),
    _accepts(
        r"(did not match|[Ff]ound dtype|same d?type|should have the same type|[Tt]ype promoting not"
        r"|different dtypes|but expected|expected dtype|should be the same|must have the same dtyp"
        r"|can't be promoted|dtype mismatch|mixed dtype|dtypes match)",
        "operands of different dtypes are promoted everywhere",
    ),
    _accepts(
        r"missing 1 required positional arguments?: \"dim\"",
        "dim may be left out wherever everything can be reduced, with keepdim too",
    ),
    _accepts(
        r"invalid combination of arguments|takes .* positional arguments? but"
        r"|missing \d required positional arg|must be (int|bool), not (tuple|list|NoneType)"
        r"|unexpected keyword argument",
        "an argument may be left out, named or given by position where one of PyTorch's overloads "
        "happens not to take it so",
        *FREER_CALLS,
    ),
    _accepts(
        r"(Expected dtype int32(/int64| or int64)|to be Long or Byte|scalar types: Long, Int"
        r"|index tensor of type LongTensor|Expected a long tensor for index"
        r"|Expected dtype int64 for index|dtype of indices should be Long)",
        "indices are of any integer dtype",
    ),
    _accepts(r"view size is not compatible", "PyTorch views there where it could copy"),
    _accepts(
        r"Autograd not support dtype|is not differentiable with respect to argument"
        r" '(target|weight|pos_weight)'",
        "what has no gradient is no error; a target has one where the formula gives one",
    ),
    _accepts(
        r"Boolean (alpha|beta) only|argument (alpha|beta) must not be a floating",
        "True is 1 and 2.0 is 2 also as a factor of integers; fractions are refused",
    ),
    _accepts(
        r"incorrect size|must have the same size|should have same dimension"
        r"|multi-target not supported|1D target tensor expects|batch dimensions do not match"
        r"|input dimensions do not match|same number of dimensions",
        "what can be broadcast is broadcast",
        *("gaussian_nll_loss", "l1_loss", "mse_loss", "margin_ranking_loss", "bilinear"),
        *("cosine_embedding_loss", "triplet_margin_loss"),
    ),
    _accepts(
        r"p_in >= 0|negative entry|all elements of std >= 0",
        "elements are not looked at when that would wait for the device",
        *("bernoulli", "gaussian_nll_loss", "normal"),
    ),
    _accepts(r"Integer division with addcdiv", "divides truly, as div does", "addcdiv"),
    _accepts(
        r"index -\d+ is out of bounds|INDICES element is out of DATA bounds, id=-"
        r"|index out of range in self",
        "negative positions count from the end, here as in x[...]",
        *("scatter_add", "take_along_dim", "gather", "scatter", "scatter_reduce", "index_select"),
        *("embedding", "index_add", "index_copy"),
    ),
    _accepts(
        r"cannot reshape tensor of 0 elements|output with shape .* doesn't match the broadcast"
        r"|Padding size \d|undefined Tensor|INTERNAL ASSERT|expects a non-empty TensorList"
        r"|Dimension specified as 0 but tensor has no|weights sum to zero"
        r"|on an empty tensor because|Tensor dimension is 0, expected 2",
        "the edge of a definition (nothing to do, no element, no dimension) has a result",
    ),
    _accepts(
        r"convertible without narrowing",
        "dtype= narrows if it is told to",
        *("linalg_vector_norm", "norm"),
    ),
]

# ---- what PyTorch takes and PyFlame does not ------------------------------------------------------
EXEMPT += [
    _refuses(
        r"got out= of shape",
        "PyTorch resizes an out= that has elements and warns that this will be an error",
    ),
    _refuses(
        r"got bool; expected floats",
        "dtypes are checked although there is nothing to compute",
        "adaptive_avg_pool1d",
    ),
    _refuses(
        r"got (bias|weight)_(ih|hh) of shape",
        "weights and biases of recurrent cells have the shapes of the layer; PyTorch broadcasts what fits",
        "gru_cell",
        "lstm_cell",
        "rnn_tanh_cell",
        "rnn_relu_cell",
    ),  # fmt: skip
    _refuses(
        r"reaches some elements more than once",
        "a write through an expanded tensor meets an element several times; PyTorch refuses most",
    ),
    _refuses(
        r"^(DType|Index|Value)Error",
        "dtypes, dimensions and numbers are checked although there is nothing to compute",
        program=r"m\.zeros\(\(",
    ),
    _refuses(
        r"complex|weight|numbers",
        "there is no such operation of complex numbers",
        program=r"1j",
    ),
    _refuses(
        r"NaN or an infinity",
        "what is not finite is refused before anything iterates over it",
    ),
    _refuses(
        r"expected both to have the same dtype",
        "operands of one dtype, as in other systems",
        "linalg_solve_triangular",
    ),
    _refuses(
        r"expected float32, float64, complex64 or complex128",
        "dtypes are checked although there is nothing to compute",
        *("linalg_matrix_rank", "linalg_svdvals", "linalg_eigvalsh", "linalg_pinv"),
        program=r"zeros|1:",
        usual=False,
    ),
    _accepts(
        r"linalg.vander supports|may not be a boolean tensor",
        "more dtypes are taken",
        *("linalg_vander", "mvlgamma"),
    ),
    Exempt(
        ("conj_physical",),
        "grad",
        r"given; PyTorch's is None",
        "out= is an in-place write, with a history like any other",
    ),
    Exempt(
        ("cumulative_trapezoid",),
        "grad",
        r"None; PyTorch's is tensor\(\[\]",
        "fewer than two elements have no areas, and nothing to differentiate",
        usual=False,
    ),
    Exempt(
        ("matrix_exp", "linalg_matrix_exp"),
        "value",
        r"not (nan|-?inf)$",
        "16-bit matrices are calculated in float32",
        program=r"float16",
    ),
    Exempt(
        ("linalg_matrix_rank",),
        "shape",
        r"not \(\)$",
        "tolerances broadcast over empty batches too",
        program=r"zeros",
        usual=False,
    ),
    Exempt(
        ("mvlgamma",),
        "grad|second",
        r"-?inf, not -?\d\S*e\+3",
        "poles are infinities, not large numbers",
    ),
    Exempt(
        ("nextafter",),
        "grad",
        r"gradient of a",
        "the gradient goes through in place as otherwise",
        program=r"nextafter_",
    ),
    Exempt(
        ("renorm",),
        "grad|second",
        r"0\.0, not nan$",
        "what is left as it is has a gradient of 1, whatever its norm's",
    ),
    _refuses(
        r"coordinates of shape",
        "one coordinate for each element",
        "cumulative_trapezoid",
    ),
    _refuses(
        r"expected \[batch, channels|got shape \[",
        "PyTorch warns about inputs of these shapes, and guesses which dimension has channels",
        *("dropout2d", "dropout3d", "adjoint"),
    ),
    _refuses(
        r"use randint for integers",
        "noise of floating-point numbers has no use for integers",
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "gumbel_softmax", "normal"),
    ),
    _refuses(
        r"got a result of shape",
        "a tensor does not change its shape by an in-place sum",
        "addbmm",
    ),
    _refuses(
        r"a whole number, for integers",
        "PyTorch drops the fraction of a factor of integers",
        *("addmm", "addbmm", "baddbmm", "addmv"),
    ),
    _refuses(
        r"got \(\)",
        "without a tensor there is neither dtype nor device",
        *("broadcast_tensors", "block_diag"),
    ),
    _refuses(r"gradients are dense", "a gradient of gather is no table's", "gather"),
    _refuses(r"scale_grad_by_freq with sparse", "PyTorch refuses the gradient", "embedding"),
    _refuses(r"argument 'inplace' must", "a flag is True or False", "alpha_dropout", usual=False),
    _refuses(
        r"expected finite numbers, the lower first", "slopes are numbers", "rrelu", usual=False
    ),
    _refuses(
        r"needs a decomposition|need a decomposition|expected 'fro'",
        "decompositions are not there yet",
        *("linalg_norm", "linalg_matrix_norm", "norm"),
    ),
    _refuses(
        r"at least one element|nothing has no",
        "nothing has no median and no extreme; PyTorch returns NaN",
        *("median", "nanmedian", "cdist", "linalg_matrix_norm"),
    ),
    _refuses(
        r"expected their sum",
        "a wrong output_size is an error on every device",
        "repeat_interleave",
        usual=False,
    ),
    _refuses(
        r"attn_mask with is_causal",
        "two masks are a mistake",
        "scaled_dot_product_attention",
        usual=False,
    ),
]

# ---- different results ----------------------------------------------------------------------------
EXEMPT += [
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
    _accepts(
        r"Subtraction, the `-` operator",
        "bools are 0 and 1 inside of a formula; only a difference that is spelled out is refused",
    ),
    _accepts(
        r"ZeroDivisionError",
        "a kernel raises no error for an element: the quotient of integers by 0 is 0",
        *("remainder", "floor_divide", "divide", "div", "fmod"),
    ),
    _accepts(
        r"Bad in-place call|input dtype should be either floating",
        "the dtype of the sums is converted to the tensor's",
        *("cumsum_", "dist"),
    ),
    _accepts(
        r"refer to a single memory location",
        "the result is complete before out= is written, so out= may be the input itself",
        *("bernoulli", "gather", "addr", "cat", "concat", "concatenate", "column_stack", "cross"),
        *("row_stack", "vstack", "hstack", "dstack", "masked_select"),
    ),
    _accepts(
        r"Dimension specified as -1 but|eps must be non-negative|same dimension as input"
        r"|stride\(-1\) must be 1",
        "nothing depends on it in this call",
        *("unique_consecutive", "cosine_similarity", "diff", "view"),
    ),
    _accepts(
        r"all elements of (input|target) should be between",
        "elements are not looked at when that would wait for the device: the loss is NaN",
        "binary_cross_entropy",
    ),
    _refuses(
        r"shares a part of its memory",
        "an out= that is a part of an argument is a mistake more often than not",
    ),
    _refuses(
        r"^ShapeError",
        "shapes are checked although there is nothing to compute",
        program=r"m\.zeros\(\(",
    ),
    _refuses(
        r"target of shape \[1\]|index \[\]|source of shape \[\]|got size",
        "a tensor of one element and one of no dimension are not the same shape",
        *("nll_loss", "scatter_", "scatter_reduce_", "index_copy", "bernoulli_"),
    ),
    _refuses(
        r"^(DType|Index)Error",
        "operands of products and distances are of one dtype and have the dimension in question",
        *("inner", "cosine_similarity", "linalg_vecdot"),
    ),
    _refuses(r"use randint for integers", "as above", "randn_like", "randn"),
    _refuses(r"", "one bool is no shape", "unravel_index", program=r"True"),
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
        ("addr",),
        "dtype",
        r"int64, not bool",
        "bools times whole numbers are whole numbers",
        program=r"m\.bool",
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
    _refuses(
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
        ("binary_cross_entropy",),
        "grad",
        r"not -?inf",
        "a logarithm is cut at -100 in the gradient, too",
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
    _refuses(
        r"a leaf tensor that requires grad cannot be changed",
        "a write into a leaf is refused, whatever is written",
        program=r"\nout = [a-p]\b",
    ),
    _accepts(
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
    _accepts(
        r"Expected 2D or 3D input|can't be cast|must have the same size|only supports a 0-dimensional"
        r"|must be 1D or 2D|must be of length 1 or 2|without overflow|Dimension out of range"
        r"|must be tuple of (ints|Tensors), not Tensor|must be in range|must match the size"
        r"|one `x` value|only support dx as a real|out of bounds for double|start out of range"
        r"|diff expects the shape|repeated dim|must be a matrix|boolean masks|not a valid value"
        r"|0D target tensor|inconsistent tensor size",
        "what PyTorch refuses by a rule of its own and is taken here",
        *("dropout1d", "huber_loss", "index_fill", "linalg_norm", "logspace", "linspace", "mode"),
        *("new_ones", "new_zeros", "pow", "sub", "subtract", "softshrink", "trapz", "trapezoid"),
        *("uniform_", "diff", "moveaxis", "linear", "masked_fill", "hinge_embedding_loss"),
        *("index_put",),
        *("threshold", "full", "column_stack", "vstack", "cosine_embedding_loss", "linalg_vecdot"),
    ),
    _accepts(
        r"not NoneType",
        "None stands for a default",
        *("uniform_", "histc", "hardshrink", "pairwise_distance"),
    ),
    _accepts(
        r"invalid Poisson rate",
        "elements are not looked at when that would wait for the device",
        "poisson",
    ),
    _refuses(
        r"got fweights of shape|got tau|expected finite ends|expected a floating-point dtype"
        r"|expected an integer|expected sizes of at least 1|is out of bounds|label_smoothing"
        r"|expected a positive number|expected all to have the same dtype|got input of shape \[\]"
        r"|expected two inputs of one shape|use randint",
        "arguments are checked although there is nothing to compute, or PyTorch reads them otherwise",
        *("cov", "gumbel_softmax", "histc", "log_softmax", "softmax", "softmin", "masked_fill"),
        *("unravel_index", "take_along_dim", "cross_entropy", "triplet_margin_loss", "einsum"),
        *("multi_margin_loss", "cosine_embedding_loss", "bernoulli"),
    ),
    _refuses(r"that requires grad", "a number has no gradient", "logspace", "linspace"),
    _refuses(
        r"expected a contiguous one",
        "gradients of views by strides are those of contiguous tensors",
        "as_strided",
    ),
    _refuses(
        r"bool tensor for a result of int64",
        "bools times whole numbers are whole numbers",
        *("addr", "addbmm", "cumsum"),
    ),
    _refuses(r"pf\.full: got", "an operand beyond the dtype", "bitwise_or", "bitwise_and"),
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


def find(case, difference):
    for entry in EXEMPT:
        if entry.covers(case, difference):
            return entry
    return None
