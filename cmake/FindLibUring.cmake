# Finds liburing, which has no CMake files.
#
# Versions before 2.2 count as not found: they lack functions that src/io calls (to register buffers one by one).
#   LibUring_VERSION      from pkg-config, if available
#   LibUring::LibUring    the target to link

include(CheckCXXSourceCompiles)
include(FindPackageHandleStandardArgs)

find_path(LibUring_INCLUDE liburing.h)
find_library(LibUring_LIBRARY uring)
mark_as_advanced(LibUring_INCLUDE LibUring_LIBRARY)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(LibUring_pc QUIET liburing)
  set(LibUring_VERSION "${LibUring_pc_VERSION}")
endif()

if(LibUring_INCLUDE AND LibUring_LIBRARY)
  set(CMAKE_REQUIRED_INCLUDES "${LibUring_INCLUDE}")
  set(CMAKE_REQUIRED_LIBRARIES "${LibUring_LIBRARY}")
  check_cxx_source_compiles("
    #include <liburing.h>
    int main() { io_uring ring{}; return io_uring_register_buffers_sparse(&ring, 1); }" LibUring_REGISTERS_SPARSELY)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()

find_package_handle_standard_args(LibUring
  REQUIRED_VARS LibUring_LIBRARY LibUring_INCLUDE LibUring_REGISTERS_SPARSELY
  VERSION_VAR LibUring_VERSION)

if(LibUring_FOUND AND NOT TARGET LibUring::LibUring)
  add_library(LibUring::LibUring INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibUring::LibUring SYSTEM INTERFACE "${LibUring_INCLUDE}")
  target_link_libraries(LibUring::LibUring INTERFACE "${LibUring_LIBRARY}")
endif()
