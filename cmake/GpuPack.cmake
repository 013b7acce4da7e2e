# Compiles what most programs run for GPUs that need not be here, into pyflame-kernels.pack beside
# the plug-ins: what a pack has, nobody compiles at first use. Architectures that no compiler of this
# machine serves (NVRTC; hipRTC or clang 19) are left out, and the build says so.
set(PYFLAME_GPU_PACK "" CACHE STRING
    "Compile GPU programs ahead of time for these architectures (gfx942;sm_90), native: the GPUs here")
if(PYFLAME_GPU_PACK)
  set(PLUGINS "")
  foreach(NAME pyflame_rocm pyflame_cuda)
    if(TARGET ${NAME})
      list(APPEND PLUGINS ${NAME})
    endif()
  endforeach()
  if(NOT TARGET _C OR NOT PLUGINS)
    message(FATAL_ERROR "PYFLAME_GPU_PACK is '${PYFLAME_GPU_PACK}', but nothing can run what is to "
                        "be compiled: it needs the Python module and a plug-in "
                        "(-DPYFLAME_BUILD_PYTHON=ON, -DPYFLAME_USE_ROCM=ON, -DPYFLAME_USE_CUDA=ON)")
  endif()
  get_directory_property(PACK_PYTHON DIRECTORY python DEFINITION Python_EXECUTABLE)
  set(PACK ${PROJECT_BINARY_DIR}/pyflame-kernels.pack)
  add_custom_command(
    OUTPUT ${PACK}
    COMMAND ${PACK_PYTHON} ${PROJECT_SOURCE_DIR}/tools/gpu_pack.py --module $<TARGET_FILE:_C>
            --out ${PACK} ${PYFLAME_GPU_PACK}
    DEPENDS pyflame _C ${PLUGINS} ${PROJECT_SOURCE_DIR}/tools/gpu_pack.py
            ${PROJECT_SOURCE_DIR}/python/pyflame/_arguments.py
            ${PROJECT_SOURCE_DIR}/python/pyflame/_common_programs.py
            ${PROJECT_SOURCE_DIR}/python/pyflame/kernel_cache.py
    COMMENT "Compiling GPU programs for ${PYFLAME_GPU_PACK}"
    USES_TERMINAL VERBATIM)
  add_custom_target(pyflame_pack ALL DEPENDS ${PACK})
  if(SKBUILD)
    install(FILES ${PACK} DESTINATION pyflame/lib)
  else()
    install(FILES ${PACK} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endif()
