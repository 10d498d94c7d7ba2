# The toolchain of the preset `aarch64`: builds for aarch64 on x86_64 Debian, and runs the result under qemu-user.
#
# It needs g++-aarch64-linux-gnu, qemu-user and the :arm64 packages of the libraries. tools/aarch64.sh installs them
# into a separate tree and builds there. Debian keeps the libraries of both architectures side by side, so neither
# CMake nor qemu needs another root directory.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

# FindMPI would ask mpicc where MPI is, but mpicc is an aarch64 program too.
foreach(language C CXX)
  set(MPI_${language}_COMPILER_INCLUDE_DIRS /usr/lib/aarch64-linux-gnu/openmpi/include)
  set(MPI_${language}_LIB_NAMES mpi)
endforeach()
set(MPI_mpi_LIBRARY /usr/lib/aarch64-linux-gnu/libmpi.so)
