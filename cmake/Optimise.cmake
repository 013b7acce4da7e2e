# How hard the library's sources are optimised in a release: all of them are installed, few are hot.
# The sources of one level are one target (cmake/Precompile.cmake says why).
function(optimise NAME FLAGS)
  add_library(pyflame_${NAME} OBJECT ${ARGN})
  target_compile_options(pyflame_${NAME} PRIVATE ${FLAGS})
  target_link_libraries(pyflame_${NAME} PRIVATE pyflame_inside)
  pyflame_precompile(pyflame_${NAME})
  list(REMOVE_ITEM PYFLAME_SOURCES ${ARGN})
  set(PYFLAME_SOURCES ${PYFLAME_SOURCES} $<TARGET_OBJECTS:pyflame_${NAME}> PARENT_SCOPE)
endfunction()
function(options FLAGS)  # of sources of src/cpu
  list(TRANSFORM ARGN REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/src/cpu/\\1.cpp")
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "${FLAGS}")
endfunction()
macro(paths LIST FOLDER)
  set(PATHS ${ARGN})
  list(TRANSFORM PATHS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/src/${FOLDER}/\\1.cpp")
  list(APPEND ${LIST} ${PATHS})
endmacro()
# Arguments are checked and kernels chosen here, once a call, and every call goes through a few of them.
paths(HOT ops as_strided autocast inplace matmul operators pointwise pointwise_functions record registry view)
set(SMALL ${PYFLAME_SOURCES})
list(FILTER SMALL INCLUDE REGEX "/src/(ops|io|nn|optim|files|meta|table)/")
list(REMOVE_ITEM SMALL ${HOT})
# What runs once a process, a capture or a report.
paths(COLD core alloc_settings device error interrupt limits mapped memory_words pinned plugins room sparse
      stream)
paths(COLD engine capture_arena capture_cells capture_copies capture_difference capture_graph
      capture_layout capture_notes capture_order capture_passes hidden hidden_kernels other_memory
      print recompute region streams thread_groups trace user_kernel)
paths(COLD cpu lapack library_file machine tape_compile)
paths(COLD paranoid backend)
list(APPEND SMALL ${COLD})
optimise(small -Os ${SMALL})
# Vectors are written out, and what is done with several of them is to be unrolled.
paths(HOT cpu attention_rows conv_depthwise conv_flat conv_taps convert depthwise_kernels distance fft
      fft_kernels gemm gemm_cells gemm_own gemm_pack gemm_row loss matmul move norm optim
      pointwise_kernels_f32 recurrent recurrent_cells softmax tape tile_convert)
optimise(hot -O3 ${HOT})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(QUIET -Wno-ignored-optimization-argument)  # clang-tidy reads these options
  options("-fpeel-loops;${QUIET}" gemm_micro pool_average pool_max)
  # Loops over elements: vectors, but neither copies for every case nor pieces of them.
  options("-fvect-cost-model;${QUIET}" attention conv creation index linalg linalg_spectral linalg_tiles
          random reduce_exact scan scatter shape sort special)
  options(-funswitch-loops reduce_exact scatter)
endif()
