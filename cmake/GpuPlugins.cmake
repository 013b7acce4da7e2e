# The GPU plug-ins (src/gpu) build on any machine: they open the vendor's libraries at run time.
# Headers, where there are any, are compared with the plug-ins' own declarations:
#   -DROCM_PATH=<ROCm>         include/hip/hip_runtime.h and include/hip/hiprtc.h below it
#   -DCUDA_INCLUDE_PATH=<dir>  cuda.h and nvrtc.h (the Python package nvidia-cuda-runtime has them)
set(CUDA_INCLUDE_PATH "" CACHE STRING
    "Where cuda.h and nvrtc.h are (a list), to check the CUDA plug-in's declarations")
