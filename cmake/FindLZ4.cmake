# Finds lz4. Debian has no CMake files of it.
#   LZ4_VERSION   from its header
#   LZ4::LZ4      the target to link

include(FindPackageHandleStandardArgs)

find_path(LZ4_INCLUDE lz4.h)
find_library(LZ4_LIBRARY lz4)
mark_as_advanced(LZ4_INCLUDE LZ4_LIBRARY)

if(LZ4_INCLUDE)
  file(STRINGS "${LZ4_INCLUDE}/lz4.h" lines REGEX "define LZ4_VERSION_(MAJOR|MINOR|RELEASE) ")
  string(REGEX REPLACE "[^;]*LZ4_VERSION_[A-Z]+ +([0-9]+)[^;]*" "\\1" LZ4_VERSION "${lines}")
  string(REPLACE ";" "." LZ4_VERSION "${LZ4_VERSION}")
endif()

find_package_handle_standard_args(LZ4
  REQUIRED_VARS LZ4_LIBRARY LZ4_INCLUDE
  VERSION_VAR LZ4_VERSION)

if(LZ4_FOUND AND NOT TARGET LZ4::LZ4)
  add_library(LZ4::LZ4 INTERFACE IMPORTED GLOBAL)
  target_include_directories(LZ4::LZ4 SYSTEM INTERFACE "${LZ4_INCLUDE}")
  target_link_libraries(LZ4::LZ4 INTERFACE "${LZ4_LIBRARY}")
endif()
