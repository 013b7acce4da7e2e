"""GPU libraries that are opened at run time, by the variables that name them."""

NAMES = (
    "HIPBLASLT", "ROCBLAS", "CUBLASLT", "CUDNN", "MIOPEN", "HIPSOLVER", "HIPBLAS", "HIPFFT",
    "CUSOLVER", "CUBLAS", "CUFFT",
)  # fmt: skip

# An environment in which there is none: the stand-in is not for what a machine has installed.
NONE = {f"PYFLAME_{name}_LIBRARY": "/none" for name in NAMES}
