"""PyFlame: deep learning that reads like PyTorch and runs on GPUs of any vendor, or none.

`import pyflame as pf`. Operations come from one table (`pyflame.ops`); layers are in
`pyflame.nn`, optimizers in `pyflame.optim`. Submodules are imported when they are first used.
"""

# ruff: noqa: F401 (what is imported here is the interface)

import _thread
import math as _math
import os as _os

from . import _C, _aliases, _einops, _layouts, _tensor
from ._C import (
    AutogradError,
    BackendError,
    DeviceError,
    DTypeError,
    FileError,
    IndexError,
    LinAlgError,
    NotSupportedError,
    OutOfMemoryError,
    PyFlameError,
    ShapeError,
    Size,
    Tensor,
    ValueError,
    __version__,
    as_tensor,
    asarray,
    backend_status,
    clear_autocast_cache,
    device,
    device_info,
    dtype,
    flush,
    from_dlpack,
    from_numpy,
    frombuffer,
    get_default_dtype,
    get_device,
    get_num_threads,
    initial_seed,
    is_anomaly_enabled,
    is_autocast_cache_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_strict,
    is_tensor,
    promote_types,
    set_autocast_cache_enabled,
    set_default_dtype,
    set_device,
    set_num_threads,
    set_strict,
    synchronize,
    tensor,
)
from ._grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)

if "inf" not in globals():  # importlib.reload() has them
    _C._import_begins()
_tensor.install()
_einops.install()
_aliases.install()

# Operations, then dtypes: pyflame.float is a dtype.
globals().update(_C._functions)
_DTYPES = {name: value for name, value in vars(_C).items() if isinstance(value, dtype)}
globals().update(_DTYPES)

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None
globals().update({name: getattr(_layouts, name) for name in _layouts.__all__})

# Names that live in modules of the package and are imported when they are used.
_MODULES = (
    "accelerator",
    "array_api",
    "backend",
    "backends",
    "kernel_cache",
    "tuning",
    "autograd",
    "checkpoint",
    "cli",
    "compiler",
    "cpu",
    "cuda",
    "flash_attn",
    "datasets",
    "distributed",
    "distributions",
    "finance",
    "debug",
    "func",
    "nn",
    "linalg",
    "fft",
    "signal",
    "fx",
    "sparse",
    "float8",
    "hub",
    "memory",
    "multiprocessing",
    "nested",
    "ops",
    "optim",
    "models",
    "overrides",
    "profiler",
    "random",
    "return_types",
    "streams",
    "training",
    "transforms",
    "masked",
    "safetensors",
    "serialization",
    "special",
    "testing",
    "torch_files",
    "utils",
    "version",
    "amp",
)
_LAZY = {
    "save": "serialization",
    "load": "serialization",
    "set_printoptions": "_format",
    "UntypedStorage": "_tensor",
    "explain": "explain",
    "compile": "compiler",
    "memory_format": "_misc",
    "contiguous_format": "_misc",
    "preserve_format": "_misc",
    "channels_last": "_misc",
    "channels_last_3d": "_misc",
    "finfo": "_misc",
    "iinfo": "_misc",
    "Generator": "random",
    "manual_seed": "random",
    "seed": "random",
    "get_rng_state": "random",
    "set_rng_state": "random",
    "default_generator": "random",
    "rocm_is_available": "_misc",
    "rocm_device_count": "_misc",
    "rocm_get_device_info": "_misc",
    "typename": "_misc",
    "is_storage": "_misc",
    "is_floating_point": "_misc",
    "is_complex": "_misc",
    "can_cast": "_misc",
    "result_type": "_misc",
    "numel": "_misc",
    "set_default_device": "_misc",
    "get_default_device": "_misc",
    "set_default_tensor_type": "_misc",
    "set_float32_matmul_precision": "_misc",
    "get_float32_matmul_precision": "_misc",
    "use_deterministic_algorithms": "_misc",
    "are_deterministic_algorithms_enabled": "_misc",
    "set_num_interop_threads": "_misc",
    "get_num_interop_threads": "_misc",
    "set_anomaly_enabled": "_misc",
    "einsum": "_misc",
    "histogramdd": "_misc",
    "gradient": "_misc",
    "is_conj": "_misc",
    "is_neg": "_misc",
    "nuclear_norm": "_misc",
    "svd_lowrank": "_lowrank",
    "pca_lowrank": "_lowrank",
    "lobpcg": "_lobpcg",
    "tensordot": "_misc",
    "broadcast_shapes": "_misc",
    "detach": "_misc",
    "vmap": "func",
    "kernel": "_kernel",
    "tune": "tuning",
    "get_tuning_cache": "tuning",
    "Kernel": "_kernel",
    "sparse_coo_tensor": "sparse",
    "sparse_csr_tensor": "sparse",
    "sparse_compressed_tensor": "sparse",
    "spmm": "sparse",
    "smm": "sparse",
    "sspaddmm": "sparse",
    "Stream": "streams",
    "Event": "streams",
    "get_pinned_pool": "memory",
    "get_memory_manager": "memory",
    "warmup_memory_pool": "memory",
    "autocast": "amp",
    "GradScaler": "amp",
    "is_autocast_available": "amp",
    "is_autocast_enabled": "amp",
    "set_autocast_enabled": "amp",
    "get_autocast_dtype": "amp",
    "set_autocast_dtype": "amp",
    "is_autocast_cpu_enabled": "amp",
    "set_autocast_cpu_enabled": "amp",
    "get_autocast_cpu_dtype": "amp",
    "set_autocast_cpu_dtype": "amp",
    "get_autocast_gpu_dtype": "amp",
    "set_autocast_gpu_dtype": "amp",
}
_LAZY |= dict.fromkeys(
    """
    AcceleratorError cfloat cdouble fake_quantize_per_tensor_affine
    fake_quantize_per_channel_affine segment_reduce constant_pad_nd
    convolution conv_tbc affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d
    as_strided_ norm_except_dim frobenius_norm cosine_embedding_loss ctc_loss hinge_embedding_loss
    margin_ranking_loss triplet_margin_loss empty_strided empty_permuted
    unsafe_chunk unsafe_split unsafe_split_with_sizes narrow_copy nonzero_static range from_file detach_ is_signed is_inference
    is_distributed is_anomaly_check_nan_enabled set_flush_denormal set_deterministic_debug_mode
    get_deterministic_debug_mode is_deterministic_algorithms_warn_only_enabled set_warn_always
    is_warn_always_enabled
    """.split(),
    "_torch_names",
)
_LAZY |= dict.fromkeys(
    """
    batch_norm instance_norm group_norm layer_norm embedding embedding_bag kl_div poisson_nll_loss
    binary_cross_entropy_with_logits
    """.split(),
    "_two_forms",
)
_LAZY |= dict.fromkeys(
    """
    alias_copy as_strided_copy col_indices_copy crow_indices_copy detach_copy diagonal_copy expand_copy
    indices_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy
    transpose_copy unbind_copy unfold_copy unsqueeze_copy values_copy view_as_complex_copy view_as_real_copy
    view_copy
    """.split(),
    "_copies",
)
_LAZY |= dict.fromkeys(
    "celu selu rrelu threshold max_pool1d max_pool2d max_pool3d".split(), "nn.functional"
)
for _name in _LAZY:  # operations with a Python form of their own
    globals().pop(_name, None)
_KINDS = "Float Double Half BFloat16 Long Int Short Char Byte Bool"
_TYPED = tuple(f"{kind}Tensor" for kind in _KINDS.split())


_os.register_at_fork(before=_C._await_imports, after_in_child=_C._forget_imports)


def _import(name):
    return _C._import(f"{__name__}.{name}")


def __getattr__(name):
    if name in _MODULES:
        try:
            return _import(name)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    elif name in _LAZY:
        value = getattr(_import(_LAZY[name]), name)
        globals()[name] = value
        return value
    elif name in _TYPED:
        value = _import("_typed").typed(name)
        globals()[name] = value
        return value
    if name.startswith("_"):
        raise AttributeError(f"module 'pyflame' has no attribute '{name}'")
    raise _import("_torch.missing").MissingHere(_C._import(__name__), name)


def __dir__():
    return sorted({*globals(), *_MODULES, *_LAZY, *_TYPED})


# `from pyflame import *` must not replace builtins such as sum, ValueError and float.
__all__ = sorted(
    n
    for n in {*globals(), *_LAZY, "nn", "optim", "autograd", "cuda", "debug", "ops", "utils"}
    if not n.startswith("_") and n not in vars(__import__("builtins"))
)
_C._import_ended()

if "PYFLAME_" in " ".join(_os.environ):
    _import("_variables").warn()
