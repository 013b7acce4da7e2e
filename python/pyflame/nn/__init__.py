"""Layers and models. Names and meaning as in torch.nn."""

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
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from .attention import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .convolution import *  # noqa: F403
from .convolution import __all__ as _CONVOLUTIONS
from .layers import (
    Bilinear,
    CosineSimilarity,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    Embedding,
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
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from .module import Module
from .normalization import *  # noqa: F403
from .normalization import __all__ as _NORMS
from .padding import *  # noqa: F403
from .padding import __all__ as _PADDING
from .parameter import Parameter
from .pooling import *  # noqa: F403
from .pooling import __all__ as _POOLING
from .recurrent import *  # noqa: F403
from .recurrent import __all__ as _RECURRENT
from .resampling import *  # noqa: F403
from .resampling import __all__ as _RESAMPLING

__all__ = [
    "functional", "init", "utils", "Module", "Parameter",
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "Sigmoid", "SiLU",
    "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
    "MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer",
    "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
    "Bilinear", "CosineSimilarity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Embedding",
    "Flatten", "Identity", "LayerNorm", "Linear", "PairwiseDistance", "RMSNorm", "Unflatten",
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MarginRankingLoss", "MSELoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss", *_PADDING, *_CONVOLUTIONS, *_NORMS,
    *_LAZY, *_POOLING, *_RECURRENT, *_RESAMPLING,
]  # fmt: skip
