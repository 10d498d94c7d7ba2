# The kinds of MPI to build libraries for: libmillrace_mpi_openmpi.so, libmillrace_mpi_mpich.so.
#
# FindMPI finds one MPI. The build may run on a cluster with the other one, so look for the headers of that one too.
# Headers are enough: the libraries are not linked with MPI (docs/design/ranks.md).
#   MILLRACE_OPENMPI_INCLUDE, MILLRACE_MPICH_INCLUDE    the folder with the mpi.h of each; set them to choose another
#   MILLRACE_MPI_KINDS                                  the kinds found: openmpi, mpich, other
# `other` is the MPI of FindMPI if it is neither of the two; then the library is linked with it.

set(MILLRACE_MPI_KINDS "")
if(NOT MILLRACE_HAVE_MPI)
  return()
endif()

# Sets `out` to the kind of MPI whose mpi.h is in the folder, or to an empty string.
function(millrace_kind_of_mpi out folder)
  set(kind "")
  if(EXISTS "${folder}/mpi.h")
    set(kind other)
    file(STRINGS "${folder}/mpi.h" says REGEX "^#define (OPEN_MPI|MPICH_VERSION) ")
    if(says MATCHES "OPEN_MPI")
      set(kind openmpi)
    elseif(says MATCHES "MPICH_VERSION")
      set(kind mpich)
    endif()
  endif()
  set(${out} "${kind}" PARENT_SCOPE)
endfunction()

get_target_property(folders ${MILLRACE_MPI_TARGET} INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS folders)
  millrace_kind_of_mpi(kind "${folder}")
  if(kind STREQUAL "openmpi")
    set(MILLRACE_OPENMPI_INCLUDE "${folder}" CACHE PATH "The folder with the mpi.h of Open MPI")
  elseif(kind STREQUAL "mpich")
    set(MILLRACE_MPICH_INCLUDE "${folder}" CACHE PATH "The folder with the mpi.h of MPICH")
  elseif(kind)
    list(APPEND MILLRACE_MPI_KINDS other)
  endif()
endforeach()

# The folders of Debian and Fedora for the MPI that is not the default.
find_path(MILLRACE_OPENMPI_INCLUDE mpi.h NO_DEFAULT_PATH DOC "The folder with the mpi.h of Open MPI"
  PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include" "/usr/include/openmpi-${CMAKE_SYSTEM_PROCESSOR}")
find_path(MILLRACE_MPICH_INCLUDE mpi.h NO_DEFAULT_PATH DOC "The folder with the mpi.h of MPICH"
  PATHS "/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich" "/usr/include/mpich-${CMAKE_SYSTEM_PROCESSOR}")
mark_as_advanced(MILLRACE_OPENMPI_INCLUDE MILLRACE_MPICH_INCLUDE)
foreach(kind openmpi mpich)
  string(TOUPPER "${kind}" upper)
  millrace_kind_of_mpi(found "${MILLRACE_${upper}_INCLUDE}")
  if(found STREQUAL kind)
    list(APPEND MILLRACE_MPI_KINDS ${kind})
  endif()
endforeach()

list(JOIN MILLRACE_MPI_KINDS ", " kinds)
string(APPEND MILLRACE_MPI_REASON ": ${kinds}")
