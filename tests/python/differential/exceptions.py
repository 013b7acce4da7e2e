"""Differences that are meant: what one side takes and the other does not; results.py has the others."""

from . import results
from .exempt import Exempt, accepts, refuses
from .not_drawn import ELSEWHERE, NOT_DRAWN  # noqa: F401 (what the test looks at)

# Operations whose arguments PyTorch takes in fewer ways.
FREER_CALLS = (
    *("argmax", "argsort", "copy_", "diagonal", "gelu", "linalg_diagonal", "prod", "split"),
    *("threshold", "true_divide", "unique", "sort", "logsumexp", "combinations"),
)

# ---- what PyFlame takes and PyTorch does not ------------------------------------------------------
EXEMPT = [
    accepts(
        r"not implemented for|[Bb]ool(ean)? (inputs?|dtypes?)? ?(is |are )?not supported"
        r"|does not support bool|not support bool|(Long|Int|Short|Char|Byte|Bool) inputs not supp"
        r"|Unsupported input type|expected a floating point|Expected a floating point"
        r"|could not infer output dtype|on a bool tensor is not supported"
        r"|hardtanh on an unsigned type",
        "PyTorch has no kernel for that dtype on the CPU; there is one here",
    ),
    accepts(
        r"must be Tensor, not (int|float|bool|complex)"
        r"|invalid combination of arguments - got \((int|float|bool), (other=)?Tensor",
        "a number may stand for any operand of a pointwise operation, the first one too",
    ),
    accepts(
        r"must be tuple of ints, not int|must be tuple of ints, but found element of type",
        "a number stands for a tuple of one wherever sizes or dimensions are expected",
    ),
    refuses(
        r"got out= and operands that require grad",
        "PyTorch lets a few operations through, whose results lose their gradient",
    ),
    accepts(
        r"expected Tensor as element 0 in argument 0, but got (list|tuple)",
        "several tensors may be passed one by one or as one list, everywhere",
    ),
    accepts(
        r"dtype|scalar type|scalar_type|canCast|can't be cast|type promoting"
        r"|non-boolean outputs|bool tensor for result|multinomial expects Long",
        "out= is of any dtype that can hold the kind of result: bool, integer or float",
        program=r"(^|\n)out = ",
    ),
    accepts(
        r"(did not match|[Ff]ound dtype|same d?type|should have the same type|[Tt]ype promoting not"
        r"|different dtypes|but expected|expected dtype|should be the same|must have the same dtyp"
        r"|can't be promoted|dtype mismatch|mixed dtype|dtypes match)",
        "operands of different dtypes are promoted everywhere",
    ),
    accepts(
        r"missing 1 required positional arguments?: \"dim\"",
        "dim may be left out wherever everything can be reduced, with keepdim too",
    ),
    accepts(
        r"invalid combination of arguments|takes .* positional arguments? but"
        r"|missing \d required positional arg|must be (int|bool), not (tuple|list|NoneType)"
        r"|unexpected keyword argument",
        "an argument may be left out, named or given by position where one of PyTorch's overloads "
        "happens not to take it so",
        *FREER_CALLS,
    ),
    accepts(
        r"(Expected dtype int32(/int64| or int64)|to be Long or Byte|scalar types: Long, Int"
        r"|index tensor of type LongTensor|Expected a long tensor for index"
        r"|Expected dtype int64 for index|dtype of indices should be Long"
        r"|expected scalar type Long but found (Int|Short|Char))",  # before PyTorch 2.13
        "indices are of any integer dtype",
    ),
    accepts(r"view size is not compatible", "PyTorch views there where it could copy"),
    accepts(
        r"Autograd not support dtype|is not differentiable with respect to argument"
        r" '(target|weight|pos_weight)'",
        "what has no gradient is no error; a target has one where the formula gives one",
    ),
    accepts(
        r"Boolean (alpha|beta) only|argument (alpha|beta) must not be a floating",
        "True is 1 and 2.0 is 2 also as a factor of integers; fractions are refused",
    ),
    accepts(
        r"incorrect size|must have the same size|should have same dimension"
        r"|multi-target not supported|1D target tensor expects|batch dimensions do not match"
        r"|input dimensions do not match|same number of dimensions",
        "what can be broadcast is broadcast",
        *("gaussian_nll_loss", "l1_loss", "mse_loss", "margin_ranking_loss", "bilinear"),
        *("cosine_embedding_loss", "triplet_margin_loss"),
    ),
    accepts(
        r"p_in >= 0|negative entry|all elements of std >= 0",
        "elements are not looked at when that would wait for the device",
        *("bernoulli", "gaussian_nll_loss", "normal"),
    ),
    accepts(r"Integer division with addcdiv", "divides truly, as div does", "addcdiv"),
    accepts(
        r"index -\d+ is out of bounds|INDICES element is out of DATA bounds, id=-"
        r"|index out of range in self",
        "negative positions count from the end, here as in x[...]",
        *("scatter_add", "take_along_dim", "gather", "scatter", "scatter_reduce", "index_select"),
        *("embedding", "index_add", "index_copy"),
    ),
    accepts(
        r"cannot reshape tensor of 0 elements|output with shape .* doesn't match the broadcast"
        r"|Padding size \d|undefined Tensor|INTERNAL ASSERT|expects a non-empty TensorList"
        r"|Dimension specified as 0 but tensor has no|weights sum to zero"
        r"|on an empty tensor because|Tensor dimension is 0, expected 2",
        "the edge of a definition (nothing to do, no element, no dimension) has a result",
    ),
    accepts(
        r"convertible without narrowing",
        "dtype= narrows if it is told to",
        *("linalg_vector_norm", "norm"),
    ),
]

# ---- what PyTorch takes and PyFlame does not ------------------------------------------------------
EXEMPT += [
    refuses(
        r"got out= of shape",
        "PyTorch resizes an out= that has elements and warns that this will be an error",
    ),
    refuses(
        r"got bool; expected floats",
        "dtypes are checked although there is nothing to compute",
        "adaptive_avg_pool1d",
    ),
    refuses(
        r"got (bias|weight)_(ih|hh) of shape",
        "weights and biases of recurrent cells have the shapes of the layer; PyTorch broadcasts what fits",
        "gru_cell",
        "lstm_cell",
        "rnn_tanh_cell",
        "rnn_relu_cell",
    ),  # fmt: skip
    refuses(
        r"reaches some elements more than once",
        "a write through an expanded tensor meets an element several times; PyTorch refuses most",
    ),
    refuses(
        r"^(DType|Index|Value)Error",
        "dtypes, dimensions and numbers are checked although there is nothing to compute",
        program=r"m\.zeros\(\(",
    ),
    refuses(
        r"complex|weight|numbers",
        "there is no such operation of complex numbers",
        program=r"1j",
    ),
    refuses(
        r"NaN or an infinity",
        "what is not finite is refused before anything iterates over it",
    ),
    refuses(
        r"expected both to have the same dtype",
        "operands of one dtype, as in other systems",
        "linalg_solve_triangular",
    ),
    refuses(
        r"expected float32, float64, complex64 or complex128",
        "dtypes are checked although there is nothing to compute",
        *("linalg_matrix_rank", "linalg_svdvals", "linalg_eigvalsh", "linalg_pinv"),
        program=r"zeros|1:",
        usual=False,
    ),
    accepts(
        r"linalg.vander supports|may not be a boolean tensor",
        "more dtypes are taken",
        *("linalg_vander", "mvlgamma"),
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
        ("renorm",),
        "grad|second",
        r"0\.0, not nan$",
        "what is left as it is has a gradient of 1, whatever its norm's",
    ),
    refuses(
        r"coordinates of shape",
        "one coordinate for each element",
        "cumulative_trapezoid",
    ),
    refuses(
        r"expected \[batch, channels|got shape \[",
        "PyTorch warns about inputs of these shapes, and guesses which dimension has channels",
        *("dropout2d", "dropout3d", "adjoint"),
    ),
    refuses(
        r"use randint for integers",
        "noise of floating-point numbers has no use for integers",
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "gumbel_softmax", "normal"),
    ),
    refuses(
        r"got a result of shape",
        "a tensor does not change its shape by an in-place sum",
        "addbmm",
    ),
    refuses(
        r"a whole number, for integers",
        "PyTorch drops the fraction of a factor of integers",
        *("addmm", "addbmm", "baddbmm", "addmv"),
    ),
    refuses(
        r"got \(\)",
        "without a tensor there is neither dtype nor device",
        *("broadcast_tensors", "block_diag"),
    ),
    refuses(r"gradients are dense", "a gradient of gather is no table's", "gather"),
    refuses(r"scale_grad_by_freq with sparse", "PyTorch refuses the gradient", "embedding"),
    refuses(r"argument 'inplace' must", "a flag is True or False", "alpha_dropout", usual=False),
    refuses(
        r"expected finite numbers, the lower first", "slopes are numbers", "rrelu", usual=False
    ),
    refuses(
        r"expected their sum",
        "a wrong output_size is an error on every device",
        "repeat_interleave",
        usual=False,
    ),
    refuses(
        r"attn_mask with is_causal",
        "two masks are a mistake",
        "scaled_dot_product_attention",
        usual=False,
    ),
]

EXEMPT += results.EXEMPT


def find(case, difference):
    for entry in EXEMPT:
        if entry.covers(case, difference):
            return entry
    return None


# ---- complex numbers -----------------------------------------------------------------------------
OF_COMPLEX = r"dtype=m\.complex(64|128)"
EXEMPT += [
    Exempt(
        (),
        "value|grad",
        r"nan|inf",
        "infinities and NaN as annex G of C99 has them, and a real number times a complex one is two "
        "products; PyTorch multiplies as if all were finite, in some kernels",
        program=r"(?s)(inf|nan|1e\+300|1e\+38|0\.0).*" + OF_COMPLEX,
    ),
    accepts(
        r"[Cc]omplex",
        "an operation of complex numbers that has a meaning is taken, with its gradient",
        program=OF_COMPLEX,
    ),
    refuses(
        r"^TypeError.*complex|got a complex number for",
        "factors (alpha, beta), ends of ranges and what fills a diagonal are real numbers",
        program=r"complex\(",
    ),
    refuses(
        r"complex(64|128)",
        "what orders, scales or counts elements takes real numbers: choose the part or the magnitude",
        *("softmax", "log_softmax", "softmin", "cummin", "cummax", "scatter"),
        *("scatter_reduce", "index_reduce", "poisson_nll_loss", "rms_norm", "soft_margin_loss"),
        *("mse_loss", "mean"),
        program=OF_COMPLEX,
    ),
    Exempt(
        ("conj", "adjoint", "real", "mH"),
        "alias",
        r"in the memory of \[\]",
        "a conjugate is a copy: nothing is left for later",
        program=OF_COMPLEX,
    ),
    refuses(r"got driver", "there is one algorithm, and nothing to choose", "linalg_svdvals"),
    Exempt(
        ("logcumsumexp",),
        "value|grad",
        r"result|value: ",
        "imaginary parts lie within pi of 0",
        usual=False,
        program=OF_COMPLEX,
    ),
    Exempt(
        ("polar",),
        "grad",
        r"value: gradient of [a-z]",
        "of a length below 0 the derivative of length * exp(i angle); PyTorch's has the other sign",
        program=r"-\d",
    ),
]

# ---- where factors coincide ------------------------------------------------------------------------
EXEMPT += [
    Exempt(
        ("kthvalue", "mode", "sort", "median", "nanmedian", "topk", "msort"),
        "grad|second",
        r"value: ",
        "which of equal elements was chosen is open",
        usual=False,
    ),
    Exempt(
        ("nextafter",),
        "grad",
        r"value: ",
        "of equal numbers the first has the gradient",
        usual=False,
    ),
    Exempt(
        ("polar",),
        "grad",
        r"not -?0\.0$",
        "of a length of 0 the derivative of length * exp(i angle) is exp(i angle)",
        usual=False,
    ),
    Exempt(
        ("linalg_svdvals",),
        "grad",
        r"value: ",
        "a singular value of 0 has vectors of either sign",
        usual=False,
        program=r"\[\[+(-?[\d.]+)(, \1)*\]",  # equal elements
    ),
    Exempt(
        ("linalg_cond",),
        "value",
        r"inf, not nan",
        "the condition of zeros is infinite",
        usual=False,
    ),
    Exempt(
        ("logit",),
        "grad",
        r"not 0\.0$",
        "a bound that is NaN bounds nothing",
        usual=False,
        program=r"nan",
    ),
    Exempt(
        ("selu_",),
        "second",
        r"value: ",
        "at its corner the second derivative is the left one's",
        usual=False,
    ),
    Exempt(
        ("triplet_margin_loss",), "second", r"e-0[89]$", "what rounding leaves of 0", usual=False
    ),
    Exempt(
        ("triangular_solve",),
        "history",
        r"result\[1\]",
        "the copy of the coefficients is a copy of numbers",
        usual=False,
    ),
    refuses(
        r"got a tensor without dimensions",
        "powers are those of a vector's elements",
        "linalg_vander",
        usual=False,
    ),
    refuses(
        r"got 1 dimensions for a tensor of shape \[\]",
        "a tensor without dimensions has none to order",
        "linalg_tensorsolve",
        usual=False,
    ),
]

EXEMPT += [
    accepts(
        r"more than one element of the written-to tensor",
        "one number may be written to elements that lie at one place",
        *("copy_", "fill_"),
    ),
]
