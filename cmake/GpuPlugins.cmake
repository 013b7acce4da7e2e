# The GPU plug-ins. This version has their interface (include/pyflame/backend.h) but not their
# code yet: asking for one stops here, with what was found, instead of building something less.
if(PYFLAME_USE_ROCM)
  if(NOT EXISTS "${ROCM_PATH}/include/hip/hip_runtime.h")
    message(FATAL_ERROR
      "PYFLAME_USE_ROCM=ON: no ROCm at ROCM_PATH='${ROCM_PATH}' "
      "(no include/hip/hip_runtime.h there). Install ROCm 5.4 or newer, or pass "
      "-DROCM_PATH=<where it is>, or build for the CPU with -DPYFLAME_USE_ROCM=OFF.")
  endif()
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/src/gpu/CMakeLists.txt")
    message(FATAL_ERROR
      "PYFLAME_USE_ROCM=ON: ROCm was found at '${ROCM_PATH}', but PyFlame ${PROJECT_VERSION} "
      "does not have its GPU plug-in yet. Build for the CPU with -DPYFLAME_USE_ROCM=OFF.")
  endif()
endif()
if(PYFLAME_USE_CUDA AND NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/src/gpu/CMakeLists.txt")
  message(FATAL_ERROR
    "PYFLAME_USE_CUDA=ON: PyFlame ${PROJECT_VERSION} does not have its GPU plug-in yet. "
    "Build for the CPU with -DPYFLAME_USE_CUDA=OFF.")
endif()
