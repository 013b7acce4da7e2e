# How hard the library's sources are optimised in a release: all of them are installed, few are hot.
target_compile_options(pyflame PRIVATE -O2)
function(optimise FLAGS FOLDER)
  list(TRANSFORM ARGN REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/src/${FOLDER}/\\1.cpp")
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "${FLAGS}")
endfunction()
# Arguments are checked and kernels chosen here, once a call, and every call goes through a few of them.
set(HOT autocast inplace matmul operators pointwise pointwise_functions record registry view)
list(JOIN HOT "|" CALLED)
set(SMALL ${PYFLAME_SOURCES})
list(FILTER SMALL INCLUDE REGEX "/src/(ops|io|nn|optim|files|meta|table)/")
list(FILTER SMALL EXCLUDE REGEX "/src/ops/(${CALLED})\\.cpp$")
set_property(SOURCE ${SMALL} APPEND PROPERTY COMPILE_OPTIONS -Os)
optimise(-O3 ops ${HOT})
# Vectors are written out, and what is done with several of them is to be unrolled.
optimise(-O3 cpu attention_rows conv_depthwise conv_flat conv_taps convert depthwise_kernels distance fft
         fft_kernels gemm gemm_cells gemm_own gemm_pack gemm_row loss matmul move norm optim
         pointwise_kernels_f32 recurrent recurrent_cells reduce softmax tape tile_convert)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(QUIET -Wno-ignored-optimization-argument)  # clang-tidy reads these options
  optimise("-fpeel-loops;${QUIET}" cpu gemm_micro pool_average pool_max)
  # Loops over elements: vectors, but neither copies for every case nor pieces of them.
  optimise("-fvect-cost-model;${QUIET}" cpu attention conv creation index linalg linalg_spectral
           linalg_tiles random reduce_exact scan scatter shape sort special)
  optimise(-funswitch-loops cpu reduce_exact scatter)
endif()
