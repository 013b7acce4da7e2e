# Half of what most sources take to compile is reading standard headers: in a release they are read once
# for each target. Sources with options of their own go without, as g++ would optimise parts of them by
# the options that the headers were compiled with. They are named, not put into a header of ours, whose
# path would stand in what a compiler cache compares.
function(pyflame_precompile TARGET)  # [HEADER...] or REUSE_FROM TARGET
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_target_property(SOURCES ${TARGET} SOURCES)
  foreach(SOURCE IN LISTS SOURCES)
    get_source_file_property(OPTIONS "${SOURCE}" COMPILE_OPTIONS)
    if(OPTIONS)
      set_property(SOURCE "${SOURCE}" PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${TARGET} ${ARGN})
  else()
    target_precompile_headers(${TARGET} PRIVATE <algorithm> <array> <atomic> <cmath> <cstdint> <cstring>
      <functional> <limits> <map> <memory> <mutex> <optional> <span> <sstream> <string> <string_view>
      <unordered_map> <utility> <variant> <vector> ${ARGN})
  endif()
endfunction()
