"""Layers and models. Names and meaning as in torch.nn."""

from .. import _C
from .._named_errors import name_constructors as _name_constructors
from . import functional, init, utils
from .activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .convolution import *  # noqa: F403
from .convolution import __all__ as _CONVOLUTIONS
from .embedding import Embedding, EmbeddingBag
from .heads import (
    AdaptiveLogSoftmaxWithLoss,
    LinearCrossEntropyLoss,
    LinearCrossEntropyOptions,
)
from .layers import (
    AlphaDropout,
    Bilinear,
    CosineSimilarity,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
    Flatten,
    Identity,
    LayerNorm,
    Linear,
    PairwiseDistance,
    RMSNorm,
    Unflatten,
)
from .lazy import *  # noqa: F403
from .lazy import __all__ as _LAZY
from .losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from .module import Module
from .multihead import MultiheadAttention
from .normalization import *  # noqa: F403
from .normalization import __all__ as _NORMS
from .padding import *  # noqa: F403
from .padding import __all__ as _PADDING
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from .pooling import *  # noqa: F403
from .pooling import __all__ as _POOLING
from .recurrent import *  # noqa: F403
from .recurrent import __all__ as _RECURRENT
from .resampling import *  # noqa: F403
from .resampling import __all__ as _RESAMPLING
from .transformer import *  # noqa: F403
from .transformer import __all__ as _TRANSFORMERS

_name_constructors(globals())
_MODULES = ("attention", "common_types", "parallel")  # imported when they are used
__all__ = [
    "functional", "init", "utils", "Module", "Parameter", "Buffer", "UninitializedBuffer",
    "UninitializedParameter",
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "Sigmoid",
    "SiLU", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
    "AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions",
    "MultiheadAttention", *_TRANSFORMERS,
    "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
    "AlphaDropout", "Bilinear", "CosineSimilarity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
    "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Identity", "LayerNorm", "Linear",
    "PairwiseDistance", "RMSNorm", "Unflatten",
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss",
    "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", *_PADDING, *_CONVOLUTIONS, *_NORMS,
    *_LAZY, *_POOLING, *_RECURRENT, *_RESAMPLING, "DataParallel", *_MODULES,
]  # fmt: skip


def __getattr__(name):
    if name in _MODULES or name == "modules":
        return _C._import(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *__all__, "modules"})
