# Parts: optional parts of the build that need a library.
#
# millrace_part(NAME PROVIDES text FIND package [VERSION minimum] [COMPONENT component] TARGETS target... PACKAGE debian-package)
# makes a cache variable MILLRACE_<NAME> (AUTO, ON or OFF) and sets
#   MILLRACE_HAVE_<NAME>    whether the part is on
#   MILLRACE_<NAME>_TARGET  the target to link
# AUTO enables the part if its library is found. ON makes a missing library an error. The result and its reason are
# printed at the end of the configuration and by `millrace --version`. tests/parts_test.py builds without each part.
# It checks <package>_FOUND and not whether the target exists: FindMPI makes its targets even if it finds nothing.

set(MILLRACE_PARTS "")

function(millrace_part name)
  cmake_parse_arguments(PARSE_ARGV 1 part "" "PROVIDES;FIND;VERSION;COMPONENT;PACKAGE" "TARGETS")
  string(TOUPPER "${name}" upper)
  set(MILLRACE_${upper} AUTO CACHE STRING "${part_PROVIDES}: AUTO, ON or OFF")
  set_property(CACHE MILLRACE_${upper} PROPERTY STRINGS AUTO ON OFF)

  set(have FALSE)
  set(target "")
  set(wanted "${part_FIND}")
  if(part_VERSION)
    set(wanted "${part_FIND} ${part_VERSION} or newer")
  endif()
  if(MILLRACE_${upper} STREQUAL "AUTO" OR MILLRACE_${upper})
    find_package(${part_FIND} ${part_VERSION} QUIET COMPONENTS ${part_COMPONENT})
    foreach(candidate IN LISTS part_TARGETS)
      if(${part_FIND}_FOUND AND TARGET ${candidate} AND NOT target)
        set(target ${candidate})
      endif()
    endforeach()
    if(target)
      set(have TRUE)
      set(version "${${part_FIND}_VERSION}")
      if(NOT version)
        set(version "${${part_FIND}_VERSION_STRING}")  # FindZLIB before CMake 3.26
      endif()
      if(NOT version)
        set(version "${${part_FIND}_C_VERSION}")  # FindMPI
      endif()
      string(STRIP "${part_FIND} ${version}" reason)
    elseif(MILLRACE_${upper} STREQUAL "AUTO")
      set(reason "${wanted} was not found when this was built; install ${part_PACKAGE} and build again")
    else()
      message(FATAL_ERROR "MILLRACE_${upper}=ON, but ${wanted} was not found. "
        "Install ${part_PACKAGE}, or configure with -DMILLRACE_${upper}=AUTO to build without ${part_PROVIDES}")
    endif()
  else()
    set(reason "switched off when this was built (MILLRACE_${upper}=OFF)")
  endif()

  set(MILLRACE_HAVE_${upper} ${have} PARENT_SCOPE)
  set(MILLRACE_${upper}_TARGET "${target}" PARENT_SCOPE)
  set(MILLRACE_${upper}_REASON "${reason}" PARENT_SCOPE)
  set(MILLRACE_${upper}_PROVIDES "${part_PROVIDES}" PARENT_SCOPE)
  set(MILLRACE_PARTS "${MILLRACE_PARTS};${name}" PARENT_SCOPE)
endfunction()

# The rows of the C++ table of parts, for src/cli/build_info.cc.in.
function(millrace_parts_table out)
  set(rows "")
  foreach(name IN LISTS MILLRACE_PARTS)
    if(name)
      string(TOUPPER "${name}" upper)
      string(TOLOWER "${MILLRACE_HAVE_${upper}}" have)
      string(APPEND rows "    {\"${name}\", \"${MILLRACE_${upper}_PROVIDES}\", ${have}, \"${MILLRACE_${upper}_REASON}\"},\n")
    endif()
  endforeach()
  set(${out} "${rows}" PARENT_SCOPE)
endfunction()

function(millrace_print_parts)
  foreach(name IN LISTS MILLRACE_PARTS)
    if(name)
      string(TOUPPER "${name}" upper)
      set(state "off")
      if(MILLRACE_HAVE_${upper})
        set(state "on ")
      endif()
      message(STATUS "part ${name}: ${state} (${MILLRACE_${upper}_REASON})")
    endif()
  endforeach()
endfunction()
