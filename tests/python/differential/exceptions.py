"""Differences that are meant, or not mended yet."""

import re
from dataclasses import dataclass, field


@dataclass
class Exempt:
    """Differences of these operations whose description matches `pattern` are expected.

    The description is the program and what differs. An entry that none of the usual draws meets any
    more fails the test.
    """

    operations: tuple  # names, or () for any
    kind: str  # of the difference; several are joined by |
    pattern: str
    reason: str
    usual: bool = True  # occurs in the usual draws, or is wanted no more
    met: set = field(default_factory=set)

    def covers(self, case, difference, description):
        names = {case.op, case.op.removesuffix("_")}
        if self.operations and not names & set(self.operations):
            return False
        return difference.kind in self.kind.split("|") and re.search(
            self.pattern, description, re.S
        )


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
        ("_zeros_beside", "_multi_norm", "_found_nonfinite", "_warmup_cosine"),
        "internal: part of what is written in Python",
    ),
    **dict.fromkeys(
        ("_sgd", "_adamw", "_clip_grad_norm_", "_clip_grad_value_"),
        "internal: behind pf.optim and nn.utils, tested there",
    ),
    **dict.fromkeys(("numpy_T", "matrix_T"), "internal: the attributes T, mT"),
    **dict.fromkeys(("index", "slice"), "internal: x[...], see test_indexing_python.py"),
    "pad_sequence": "PyTorch has it in nn.utils.rnn: test_data.py",
    "tensordot": "internal: pf.tensordot is written in Python",
}
_INIT = "internal: behind nn.init, random"
NOT_DRAWN |= {
    f"_init_{n}": _INIT
    for n in (
        *("uniform_", "normal_", "trunc_normal_", "constant_", "eye_", "xavier_uniform_"),
        *("xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_"),
        *("dirac_", "calculate_gain", "linear_", "embedding_"),
    )
}


def _accepts(pattern, reason, *operations):
    return Exempt(operations, "accepts", pattern, reason)


def _refuses(pattern, reason, *operations, usual=True):
    return Exempt(operations, "refuses", pattern, reason, usual)


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
        r"must be Tensor, not (int|float|bool)"
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
        r"(^|\n)out = .*(dtype|scalar type|scalar_type|canCast|can't be cast|type promoting"
        r"|non-boolean outputs|bool tensor for result|multinomial expects Long)",
        "out= is of any dtype that can hold the kind of result: bool, integer or float",
    ),
    _accepts(
        r"(did not match|[Ff]ound dtype|same d?type|should have the same type|[Tt]ype promoting not"
        r"|different dtypes|but expected|expected dtype|should be the same|must have the same dtyp"
        r"|can't be promoted|dtype mismatch|mixed dtype|dtypes match)",
        "operands of different dtypes are promoted everywhere",
    ),
    _accepts(
        r"(keepdim=|missing 1 required positional arguments?: \"dim\")",
        "dim may be left out wherever everything can be reduced, with keepdim too",
    ),
    _accepts(
        r"invalid combination of arguments|takes .* positional arguments? but"
        r"|missing \d required positional arg|must be (int|bool), not (tuple|NoneType)"
        r"|unexpected keyword argument",
        "an argument may be left out, named or given by position where one of PyTorch's overloads "
        "happens not to take it so",
    ),
    _accepts(
        r"(Expected dtype int32(/int64| or int64)|to be Long or Byte|scalar types: Long, Int"
        r"|index tensor of type LongTensor)",
        "indices are of any integer dtype",
    ),
    _accepts(r"view size is not compatible", "PyTorch views there where it could copy"),
    _accepts(
        r"Autograd not support dtype|is not differentiable with respect to argument '(target|weight)'",
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
        r"p_in >= 0|negative entry",
        "elements are not looked at when that would wait for the device",
        *("bernoulli", "gaussian_nll_loss"),
    ),
    _accepts(r"Integer division with addcdiv", "divides truly, as div does", "addcdiv"),
    _accepts(
        r"index -\d+ is out of bounds",
        "negative positions count from the end, here as in x[...]",
        *("scatter_add", "take_along_dim"),
    ),
    _accepts(
        r"cannot reshape tensor of 0 elements|output with shape .* doesn't match the broadcast"
        r"|Padding size \d|undefined Tensor|INTERNAL ASSERT|expects a non-empty TensorList"
        r"|Dimension specified as 0 but tensor has no|weights sum to zero"
        r"|on an empty tensor because|Tensor dimension is 0, expected 2",
        "the edge of a definition (nothing to do, no element, no dimension) has a result",
    ),
    _accepts(
        r"convertible without narrowing", "dtype= narrows if it is told to", "linalg_vector_norm"
    ),
]

# ---- what PyTorch takes and PyFlame does not ------------------------------------------------------
EXEMPT += [
    _refuses(
        r"got out= of shape",
        "PyTorch resizes an out= that has elements and warns that this will be an error",
    ),
    _refuses(
        r"reaches some elements more than once",
        "a write through an expanded tensor meets an element several times; PyTorch refuses most",
    ),
    _refuses(
        r"m\.zeros\(\(.*# refuses: (DType|Index|Value)Error",
        "dtypes, dimensions and numbers are checked although there is nothing to compute",
    ),
    _refuses(r"1j", "there is no arithmetic of complex numbers"),
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
    _refuses(r"gradients are dense", "there are no sparse tensors", "gather"),
    _refuses(
        r"max_norm, scale_grad_by_freq and sparse", "not there yet, see docs/nn.md", "embedding"
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
        r"(\(\)|\[\])",
        "dim=() reduces all dimensions, as in sum(); PyTorch's any and all reduce none then",
    ),
    Exempt(
        ("var", "std", "var_mean", "std_mean"),
        "grad",
        r"(\(\)|\[\])",
        "the same for gradients: with dim=() PyTorch divides by the size of no dimension",
    ),
    Exempt(
        ("hardsigmoid", "celu", "selu", "elu"),
        "grad|second",
        r"",
        "PyTorch rounds constants of the gradient to float32; and takes another side at 0",
    ),
    Exempt(
        ("hinge_embedding_loss",),
        "dtype",
        r"float32, not (u?int|bool)",
        "the loss of integers is a float, as every loss",
    ),
    Exempt(
        ("bincount", "trapezoid", "trapz"),
        "dtype",
        r"m\.zeros\(",
        "an empty result has the dtype that any other would have",
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
    ),
    Exempt(
        ("softsign", "cosine_embedding_loss", "cosine_similarity"),
        "value",
        r"-?9223372036854775807|32767|128",
        "integers become floats before anything can overflow",
    ),
    Exempt(
        ("baddbmm", "addbmm", "bilinear", "chain_matmul", "std_mean", "std", "cdist"),
        "value",
        r"(inf|nan|1e\+38|1e\+300)",
        "infinities: the sums meet them in another order, or skip products with 0 that PyTorch takes",
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
        r"rounding_mode.*nan, not",
        "NaN at a division by 0, although the rounded quotient is flat",
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
        *("remainder", "floor_divide", "divide"),
    ),
    _accepts(
        r"Bad in-place call|input dtype should be either floating",
        "the dtype of the sums is converted to the tensor's",
        *("cumsum_", "dist"),
    ),
    _accepts(
        r"refer to a single memory location",
        "the result is complete before out= is written, so out= may be the input itself",
        *("bernoulli", "gather"),
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
        r"m\.zeros\(\(.*# refuses: ShapeError",
        "shapes are checked although there is nothing to compute",
    ),
    _refuses(
        r"target of shape \[1\]|index \[\]|source of shape \[\]|got size",
        "a tensor of one element and one of no dimension are not the same shape",
        *("nll_loss", "scatter_", "scatter_reduce_", "index_copy", "bernoulli_"),
    ),
    _refuses(
        r"(DType|Index)Error",
        "operands of products and distances are of one dtype and have the dimension in question",
        *("inner", "cosine_similarity", "linalg_vecdot"),
    ),
    _refuses(r"use randint for integers", "as above", "randn_like"),
    _refuses(r"True", "one bool is no shape", "unravel_index"),
    Exempt(
        ("unique", "unique_consecutive", "bincount", "bernoulli", "vander"),
        "history",
        r"",
        "no gradient is defined, so the result does not claim one; PyTorch's backward raises",
    ),
    Exempt(
        ("ge_", "greater_", "less_equal_", "gt_", "lt_", "le_", "eq_", "ne_", "less_"),
        "history|grad",
        r"",
        "a comparison has no gradient for what is compared with",
    ),
    Exempt(
        ("addmm", "addmv", "addr", "addbmm", "baddbmm"),
        "grad|history",
        r"beta=-?0(\.0)?\b",
        "with beta = 0 the input is ignored, NaN and history included",
    ),
    Exempt(
        ("addmv",),
        "shape",
        r"m\.zeros\(",
        "the shape of a product with an empty matrix is that of any other product",
    ),
    Exempt(("addr",), "dtype", r"m\.bool", "bools times whole numbers are whole numbers"),
    Exempt(
        ("any", "all"),
        "dtype|value",
        r"uint8",
        "truth is a bool, of bytes too; uint8 was its old name",
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
        r"inf",
        "infinities: inf - inf of the two neighbours cancels",
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
        r"(inf|nan|1e\+38|uint8|9223372036854775807)",
        "at the ends of a dtype: nothing overflows in between, and a masked or infinite element "
        "does not spoil its neighbours",
    ),
    Exempt(
        ("binary_cross_entropy_with_logits",),
        "value",
        r"1e\+38",
        "calculated in the dtype of the result, PyTorch's in parts in float32",
    ),
    Exempt(
        ("dstack", "matrix_power", "cov"),
        "value|argument",
        r"out = |a\[\.\.\., ::2\]\.cov",
        "PyTorch reads what it has begun to write, or loses out=",
    ),
    Exempt(("l1_loss",), "value", r"weight=", "the mean is over all weights of a broadcast loss"),
    Exempt(
        ("unique_consecutive",),
        "shape",
        r"m\.tensor|m\.zeros",
        "counts and places are as in unique()",
    ),
]

EXEMPT += [
    _accepts(r"output type Bool", "bools times whole numbers are whole numbers", "addbmm"),
    _refuses(
        r"ShapeError",
        "x has one number for each along dim, or broadcasts with y",
        "trapz",
        "trapezoid",
    ),
]

# Numbers that an integer dtype cannot hold. Whether a draw has one is chance: `usual` is False.
EXEMPT += [
    Exempt(
        ("ge", "gt", "le", "lt", "eq", "ne", "less", "greater", "clip", "clamp", "floor_divide"),
        "value",
        r"u?int8",
        "a number beyond the dtype is compared as it is; PyTorch lets it wrap",
        usual=False,
    ),
    Exempt(
        ("floor_divide", "remainder", "clip", "clamp", "clamp_min", "clamp_max", "div", "divide"),
        "refuses",
        r"(DType|Value)Error.*int",
        "division by, and bounds of, numbers beyond the dtype are refused; PyTorch lets them wrap",
        usual=False,
    ),
    Exempt(
        ("hardtanh", "clamp_min", "clamp_max", "clamp", "fill_diagonal"),
        "accepts",
        r"cannot be converted to type .* without overflow",
        "a bound beyond the dtype bounds nothing, and a number that is written is cut",
        usual=False,
    ),
]


def find(case, difference, description):
    for entry in EXEMPT:
        if entry.covers(case, difference, description):
            return entry
    return None
