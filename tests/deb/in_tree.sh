#!/usr/bin/env bash
# Tries the Debian package on a bare machine, as root: installs it as the README says, uses it and removes it.
#
#   MILLRACE_BARE_SHARED=build/packages tools/bare_machine.sh tests/deb/in_tree.sh '/shared/millrace_*.deb'
set -euo pipefail
package=$(realpath "${1:?the .deb}")
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

! command -v c++ cmake mpirun python3 >/dev/null || fail "the machine is not bare"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
want '^Setting up millrace' apt-get install -y "$package"
cd "$(mktemp -d)"
want '^millrace ' millrace --version
want '^small ' millrace bench list
want '^utilisation' millrace bench small --generate
want 'VERSION_ID' millrace trace -o t -- cat /etc/os-release
want 'cat' millrace info t
want 'write' millrace query t "select name, count(*) from events group by name"
want '^Usage: millrace store' millrace store --help
mkdir dataset
for i in $(seq 10 25); do printf 'ab%d' "$i" >"dataset/$i.bin"; done
want '16 files' millrace store pack dataset -o packs
want '^ab17' millrace store run --pack packs --at /data/set -- cat /data/set/17.bin
cat >load.py <<'PYTHON'
import millrace
from millrace import trace
with trace.region("load"):
    loader = millrace.DataLoader(millrace.RawFolder("dataset", shape=(4,)), batch_size=4, shuffle=True, output="array")
    print(sum(1 for _ in loader), "batches")
PYTHON
want '4 batches' python3 -m millrace.trace -o u load.py
want 'load' millrace report u
# The package does not bring torch.
want 'install torch' bash -c "! python3 -c 'import millrace.optim'"
want 'PyTorch' bash -c "! python3 -m millrace.lab --dataset synthetic"
for file in man/man1/millrace.1 bash-completion/completions/millrace doc/millrace/examples/train.py; do
  [ -s "/usr/share/$file" ] || fail "there is no /usr/share/$file"
done
want '^Removing millrace' apt-get remove -y millrace
left=$(find /usr /etc -name '*millrace*' -o -path '*/dist-packages/millrace*')
[ -z "$left" ] || fail "after the removal there are still: $left"
echo "the Debian package works on a bare machine"
