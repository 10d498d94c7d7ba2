#!/bin/sh
# Makes an environment with a peer to compare with, from PyPI: benchmarks/peers.sh dftracer DIR. Not part
# of ./quickstart or ./test: all dependencies of Millrace come from the distribution.
set -eu

usage() {
  echo "usage: benchmarks/peers.sh dftracer|perfetto|loaders|dlio DIR" >&2
  exit 2
}

[ $# -eq 2 ] || usage
case "$1" in
  dftracer) package="dftracer==2.2.0" ;;
  # 6.6 GB if torch includes CUDA.
  loaders) package="torch torchvision h5py webdataset litdata mosaicml-streaming spdl" ;;
  perfetto) package="perfetto==0.59.0 protobuf" ;;
  # Its own list of dependencies cannot be installed: a DALI placeholder is in it.
  dlio) package="hydra-core pandas psutil h5py mpi4py torch tensorflow-cpu" ;;
  *) usage ;;
esac
python3 -m venv "$2"
# shellcheck disable=SC2086  # each word is a package
"$2/bin/pip" install --quiet $package
[ "$1" != dlio ] || "$2/bin/pip" install --quiet --no-deps dlio-benchmark pydftracer==1.0.2
echo "$1 is in $2"
