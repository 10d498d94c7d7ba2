#!/usr/bin/env bash
# Run by tests/wheel/try_bare.sh in a bare tree: installs /try/*.whl and uses it. Argument: none, openmpi or mpich.
set -euo pipefail
mpi=$1
cd /try
fail() { echo "in_tree.sh: $*" >&2; exit 1; }
# Shows and runs a command, and checks that its output has a matching line.
want() {
  local expected=$1 output status=0
  shift
  echo "\$ $*"
  output=$("$@" 2>&1) || status=$?
  [ "$status" = 0 ] || { echo "$output"; fail "exit code $status: $*"; }
  grep -m 4 -e "$expected" <<<"$output" || { echo "$output"; fail "no line of the output matches '$expected'"; }
}

! command -v c++ cmake mpirun >/dev/null || fail "the tree is not bare"
python3 -m venv venv
export PATH="/try/venv/bin:$PATH"
want 'Successfully installed millrace' pip install --no-index --disable-pip-version-check ./*.whl

if [ "$mpi" = none ]; then
  want '^millrace \|: ' millrace --version
  want 'mpi' millrace doctor
  want '^utilisation' millrace bench small --generate
  [ -s venv/share/doc/millrace/examples/fashion_mnist.py ] || fail "there are no examples"
  [ -s venv/share/man/man1/millrace.1 ] || fail "there is no manual page"
  cat >train.py <<'PYTHON'
from millrace import trace
for step in range(3):
    with trace.region("fetch", step=step):
        open("/try/data.bin", "wb").write(b"x" * 100000)
        open("/try/data.bin", "rb").read()
PYTHON
  want '^$' bash -c 'python -m millrace.trace -o t train.py; echo'
  [ -n "$(ls t/*.mrt)" ] || fail "the trace was not packed"
  want 'fetch' millrace report t
  want 'read' millrace query t "select name, count(*) from events group by name"
  want '' millrace trace -o u -- cat /etc/os-release
  want 'cat' millrace info u
  # A closed pipe ends the program, like any other.
  set +o pipefail
  millrace manual | head -1 | grep -q MILLRACE || fail "the manual cannot be read by head"
  set -o pipefail
  cat >load.py <<'PYTHON'
import os, millrace
os.makedirs("/try/raw", exist_ok=True)
for i in range(8):
    open(f"/try/raw/{i}.bin", "wb").write(bytes([i] * 4))
loader = millrace.DataLoader(millrace.RawFolder("/try/raw", shape=(4,)), batch_size=4, shuffle=True, output="array")
print(sum(1 for _ in loader), "batches")
PYTHON
  want '2 batches' python load.py
  exit 0
fi

declare -A package=([openmpi]=openmpi-bin [mpich]=mpich) name=([openmpi]='Open MPI' [mpich]=MPICH)
export DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_rmaps_base_oversubscribe=1
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${package[$mpi]}" >/dev/null 2>&1
want "2 ranks talk over ${name[$mpi]}" millrace doctor
want "2 ranks talk over ${name[$mpi]}" mpirun -n 2 millrace doctor --mpi
millrace trace -o t -- cat /etc/os-release >/dev/null
want 'cat' mpirun -n 2 millrace report t
cat >ranks.py <<'PYTHON'
import millrace
from millrace.loader._ranks import connect
rank, size = connect()
loader = millrace.DataLoader(millrace.RawFolder("/try/raw", shape=(4,)), batch_size=4, output="array",
                             shuffle=millrace.Partial(0.5, dir="/try/shards"))
print("rank", rank, "of", size, "took", sum(1 for _ in loader), "batches", flush=True)
PYTHON
mkdir raw
for i in $(seq 10 25); do printf 'ab%d' "$i" >"raw/$i.bin"; done
want 'rank . of 2 took 2 batches' mpirun -n 2 python ranks.py
