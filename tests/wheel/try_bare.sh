#!/usr/bin/env bash
# Tries a wheel on bare machines: Debian with only Python, then with Open MPI, then with MPICH.
#
# A machine is a debootstrap tree that is made once and kept. Every try uses an overlay over it, which is removed
# afterwards. Needs root, debootstrap and Debian's packages. It runs tests/wheel/in_tree.sh inside.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  cat <<'TEXT'
Usage: tests/wheel/try_bare.sh WHEEL [TREE]

Installs the wheel (tools/build_wheel.sh makes it) in trees that have Python and nothing else, and uses it there: the
command, the tracer, the loader; and two ranks by Open MPI and by MPICH. TREE (/var/cache/millrace/python-tree) is made
if it is not there.
TEXT
}
if [ $# -lt 1 ] || [ "$1" = --help ]; then usage; exit 2; fi
wheel=$(realpath "$1")
tree=${2:-/var/cache/millrace/python-tree}
[ "$(id -u)" = 0 ] || { echo "try_bare.sh: needs root, for chroot and mount" >&2; exit 1; }

# All mounts below belong to this process, and disappear with it.
if [ -z "${TRY_BARE_MOUNTS:-}" ]; then
  TRY_BARE_MOUNTS=own exec unshare --mount --propagation private "$0" "$wheel" "$tree"
fi

say() { printf '== %s\n' "$*"; }

if [ ! -e "$tree/.made" ]; then
  say "debootstrap: Debian 12 with only Python, in $tree"
  [ ! -e "$tree" ] || rmdir "$tree" || { echo "$tree is something else" >&2; exit 1; }
  mkdir -p "$(dirname "$tree")"
  # Under a name of its own until it is whole: a directory of somebody else is never removed.
  made=$(mktemp -d "$tree.XXXXXX")
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$made" >"$made.log" 2>&1 ||
    { tail "$made.log"; exit 1; }
  chmod 755 "$made"
  touch "$made/.made"
  mv -T "$made" "$tree"
fi

# A fresh machine in $root.
begin_try() {
  scratch=$(mktemp -d /tmp/try-bare-XXXXXX)
  mount -t tmpfs none "$scratch"
  mkdir "$scratch"/{upper,work,root}
  root="$scratch/root"
  mount -t overlay none -o "lowerdir=$tree,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
  mount -t proc none "$root/proc"
  mount -t tmpfs none "$root/dev"
  mkdir "$root/dev/shm"
  for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
  done
  ln -s /proc/self/fd "$root/dev/fd"
  # The tree gets packages from the same mirror as this machine.
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp -L /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  mkdir "$root/try"
  cp "$wheel" "$here/in_tree.sh" "$root/try/"
}

end_try() {
  umount -R "$root" && umount "$scratch" && rmdir "$scratch"
}

for mpi in none openmpi mpich; do
  say "a bare machine, MPI: $mpi"
  started=$SECONDS
  begin_try
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/try TERM=dumb \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash /try/in_tree.sh "$mpi"
  end_try
  say "done in $((SECONDS - started)) s"
done
say "the wheel works on all of them"
