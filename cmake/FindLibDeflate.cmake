# Finds libdeflate. Its own CMake files came with version 1.15.
#   LibDeflate_VERSION       from its header
#   LibDeflate::LibDeflate   the target to link

include(FindPackageHandleStandardArgs)

find_path(LibDeflate_INCLUDE libdeflate.h)
find_library(LibDeflate_LIBRARY deflate)
mark_as_advanced(LibDeflate_INCLUDE LibDeflate_LIBRARY)

if(LibDeflate_INCLUDE)
  file(STRINGS "${LibDeflate_INCLUDE}/libdeflate.h" line REGEX "define LIBDEFLATE_VERSION_STRING")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" LibDeflate_VERSION "${line}")
endif()

find_package_handle_standard_args(LibDeflate
  REQUIRED_VARS LibDeflate_LIBRARY LibDeflate_INCLUDE
  VERSION_VAR LibDeflate_VERSION)

if(LibDeflate_FOUND AND NOT TARGET LibDeflate::LibDeflate)
  add_library(LibDeflate::LibDeflate INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibDeflate::LibDeflate SYSTEM INTERFACE "${LibDeflate_INCLUDE}")
  target_link_libraries(LibDeflate::LibDeflate INTERFACE "${LibDeflate_LIBRARY}")
endif()
