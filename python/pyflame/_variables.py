"""Variables of the environment named PYFLAME_..., and what is said of one that nothing reads."""

import os

PREFIX = "PYFLAME_"
# Those that users set; what they do, docs/installation.md and docs/gpu.md say.
KNOWN = {
    PREFIX + name
    for name in (
        "ALLOC_CONF BACKEND_PATH CLANG COMPILE_BACKEND COMPILE_ONLY COMPILE_ONLY_COUNT COMPILE_THREADS "
        "CUBLASLT_LIBRARY CUBLAS_LIBRARY CUDA_LIBRARY CUDNN_LIBRARY CUFFT_LIBRARY CUSOLVER_LIBRARY "
        "DEVICE_GRAPHS EAGER EARLY_LAUNCHES GEMM GPU_ATTENTION GPU_CONV GPU_FLOAT32 GPU_GEMM GUARD_PAGES "
        "HIPBLASLT_LIBRARY HIPBLAS_LIBRARY HIPFFT_LIBRARY HIPRTC_LIBRARY HIPSOLVER_LIBRARY HIP_LIBRARY "
        "KERNEL_PACK LAPACK_PATH LAUNCH_BATCHES MIOPEN_LIBRARY NUM_THREADS NVRTC_LIBRARY ONEDNN_PATH "
        "PARANOID_DELAY_US PARANOID_SEED ROCBLAS_LIBRARY STRICT TRACEBACK TUNING TUNING_FILE"
    ).split()
}


def misspelt(names):
    """(name, the one that was probably meant) of those that nothing reads but look like one that is read."""
    unknown = [n for n in names if n.startswith(PREFIX) and n not in KNOWN]
    if not unknown:
        return []
    import difflib

    short = {k.removeprefix(PREFIX): k for k in KNOWN}
    found = []
    for name in sorted(unknown):
        near = difflib.get_close_matches(name.removeprefix(PREFIX), short, 1, 0.8)
        if near:
            found.append((name, short[near[0]]))
    return found


def warn():
    """A warning for each."""
    for name, meant in misspelt(os.environ):
        import warnings

        warnings.warn(
            f"pyflame: nothing reads the variable {name}; did you mean {meant}?", RuntimeWarning, 2
        )
