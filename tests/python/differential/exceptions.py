"""Differences that are meant, or not mended yet."""

import re
from dataclasses import dataclass, field


@dataclass
class Exempt:
    """Differences of these operations whose description matches `pattern` are expected.

    The description is the program, what differs and what both sides said. An entry that no draw
    of the usual number meets any more fails the test.
    """

    operations: tuple  # names, or () for any
    kind: str  # of the difference; several are joined by |
    pattern: str
    reason: str
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


# What PyFlame takes and PyTorch does not.
EXEMPT = [
    _accepts(
        r"not implemented for|[Bb]ool(ean)? (inputs?|dtypes?)? ?(is |are )?not supported"
        r"|does not support bool|not support bool|(Long|Int|Short|Char|Byte|Bool) inputs not supp"
        r"|Unsupported input type|expected a floating point|Expected a floating point"
        r"|could not infer output dtype|Subtraction, the `-` operator.*(mse_loss|hinge|dist)",
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
        r"(did not match|[Ff]ound dtype|same d?type|should have the same type|type promoting not"
        r"|different dtypes|but expected|expected dtype|should be the same|must have the same dtyp"
        r"|can't be promoted|dtype mismatch|mixed dtype)",
        "operands of different dtypes are promoted everywhere",
    ),
    _accepts(
        r"(keepdim=|missing 1 required positional arguments?: \"dim\")",
        "dim may be left out wherever everything can be reduced, with keepdim too",
    ),
    _accepts(
        r"view size is not compatible",
        "PyTorch views where it could copy",
    ),
    _accepts(
        r"Autograd not support dtype",
        "a floating-point input with an integer result has no gradient, and that is no error",
    ),
]


EXEMPT += [
    Exempt(
        tuple("ne_ not_equal_ lt_ less_ less_equal_ gt_ greater_equal_".split()),
        "grad",
        r"of b: None",
        "a comparison has no gradient for its other operand, in place as out of place",
    ),
    Exempt(
        ("logical_not_", "logical_and_", "logical_or_"),
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
    Exempt(
        ("std", "std_mean", "var_mean"),
        "value|grad",
        r"",
        "squares of float32 beyond 3e38: PyTorch's CPU adds them in float64",
    ),
]


# To be mended: operations by the kind of what differs.
TO_MEND = {
    "refuses": """
        abs absolute acos add_ addbmm addbmm_ addcmul addmv addmv_ adjoint all amax amin
        arange arccos arccosh arcsin arctan2 arctanh argmax argmin argsort asin asinh
        atan atanh baddbmm baddbmm_ bernoulli bernoulli_ bitwise_left_shift bitwise_xor
        block_diag bmm broadcast_tensors bucketize cat cdist chain_matmul clamp clip
        column_stack concatenate copy_ cos cosh cosine_similarity cross cummin deg2rad
        div divide dropout dropout1d dropout2d dropout3d dstack elu_ embedding empty eq
        erf exp exp2 expm1 exponential_ eye fill_ fix float_power floor floor_divide
        fmax fmin fmod frac full gather ge ger greater gt gumbel_softmax heaviside histc
        hstack hypot index_copy index_fill_ index_select inner isin isposinf kron ldexp
        le less less_equal linalg_matmul linalg_matrix_norm linalg_norm linalg_vecdot
        linspace log10 log1p log2 log_softmax logaddexp logcumsumexp logical_and
        logical_not logical_or logical_xor logspace logsumexp lt masked_fill_
        masked_select matmul max maximum mean median minimum mm mul multi_margin_loss
        multinomial multiply mv nan_to_num nan_to_num_ nanmean nanmedian nanquantile
        nansum ne neg negative nll_loss norm normal normal_ normalize not_equal ones
        outer polygamma pow quantile rand randint randn randn_like randperm remainder
        repeat_interleave round row_stack rsqrt scaled_dot_product_attention scatter_
        scatter_add scatter_reduce sgn sign signbit slice_scatter softmax softmin sqrt
        stack sub sub_ subtract sum swapaxes_ swapdims_ t_ take_along_dim tanh
        threshold_ transpose_ trapezoid trapz tril tril_ triu true_divide unravel_index
        unsqueeze_  var vdot where xlogy zero_ zeros
    """.split(),
    "accepts": """
        acosh add_ addbmm addcdiv addr addr_ all arccos arccosh argsort asinh atan2
        bernoulli bernoulli_ bilinear binary_cross_entropy
        binary_cross_entropy_with_logits chain_matmul clamp_ clamp_max_ clamp_min_ copy_
        cosine_embedding_loss cosine_similarity cov cumsum diagonal diff digamma_ dist
        embedding erfinv_ expm1 floor_divide full full_like gather gaussian_nll_loss
        gelu ger hardtanh hardtanh_ index_put index_select isneginf isposinf l1_loss
        lgamma_ linalg_diagonal linalg_vector_norm linspace log10 log2 logcumsumexp
        logspace logsumexp margin_ranking_loss masked_select max maximum meshgrid
        mse_loss multi_margin_loss multinomial new_full nll_loss nonzero one_hot pad
        positive pow prelu prod randperm remainder remainder_ rsub scalar_tensor scatter
        scatter_ scatter_add scatter_add_ scatter_reduce soft_margin_loss softmax split
        squeeze squeeze_ sub sub_ subtract subtract_ take_along_dim tan tanh tanhshrink
        threshold threshold_ triplet_margin_loss true_divide unique view
    """.split(),
    "value": """
        addbmm addmm_ addmv addmv_ all baddbmm baddbmm_ bilinear
        binary_cross_entropy_with_logits cdist chain_matmul clamp_min cov cross dstack
        l1_loss linspace logspace matrix_power multi_margin_loss
        multilabel_soft_margin_loss nll_loss scaled_dot_product_attention
        soft_margin_loss softsign  triplet_margin_loss
    """.split(),
    "grad": """
        addmm addmv celu diag digamma_ div_ erfinv_ hardsigmoid lgamma_ logit logit_
        scaled_dot_product_attention  trapz
    """.split(),
    "shape": """
        addmv all any unique_consecutive
    """.split(),
    "dtype": """
        addmv addr any baddbmm bincount clamp clip cumsum hardtanh hinge_embedding_loss
        ldexp threshold trapezoid vander
    """.split(),
    "history": """
        addr bernoulli bincount ge_ greater_ less_equal_ unique unique_consecutive
        vander
    """.split(),
    "argument": """
        cov
    """.split(),
    "untyped": """
        embedding relu
    """.split(),
    "type": """
        hsplit vsplit
    """.split(),
}
EXEMPT += [Exempt(tuple(v), k, "", "to be mended") for k, v in TO_MEND.items()]


def find(case, difference, description):
    for entry in EXEMPT:
        if entry.covers(case, difference, description):
            return entry
    return None
