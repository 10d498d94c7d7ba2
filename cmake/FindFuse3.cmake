# Finds libfuse 3, which has no CMake files.
#
#   Fuse3_VERSION    from pkg-config, if available
#   Fuse3::Fuse3     the target to link

include(FindPackageHandleStandardArgs)

find_path(Fuse3_INCLUDE fuse_lowlevel.h PATH_SUFFIXES fuse3)
find_library(Fuse3_LIBRARY fuse3)
mark_as_advanced(Fuse3_INCLUDE Fuse3_LIBRARY)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(Fuse3_pc QUIET fuse3)
  set(Fuse3_VERSION "${Fuse3_pc_VERSION}")
endif()

find_package_handle_standard_args(Fuse3
  REQUIRED_VARS Fuse3_LIBRARY Fuse3_INCLUDE
  VERSION_VAR Fuse3_VERSION)

if(Fuse3_FOUND AND NOT TARGET Fuse3::Fuse3)
  add_library(Fuse3::Fuse3 INTERFACE IMPORTED GLOBAL)
  target_include_directories(Fuse3::Fuse3 SYSTEM INTERFACE "${Fuse3_INCLUDE}")
  target_link_libraries(Fuse3::Fuse3 INTERFACE "${Fuse3_LIBRARY}")
endif()
