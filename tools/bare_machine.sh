#!/usr/bin/env bash
# Runs a command in a clone of this checkout on a bare Debian machine: a tree without a compiler, Python or MPI.
# Nothing that an earlier build left on this machine is available there.
#
# debootstrap makes the tree once; it is kept. Each run has an empty overlay over it, and its own mounts, processes
# and /dev. So every run starts bare and leaves nothing behind. Only two things are shared with this machine, for
# speed: the compiler cache and the packages that apt has downloaded.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tools/bare_machine.sh COMMAND...

Clones the HEAD of this checkout into a bare Debian 12 tree and runs COMMAND there, through bash, in the clone:

  tools/bare_machine.sh ./quickstart
  tools/bare_machine.sh './quickstart && ./test'

Needs root, Debian's apt-get, and debootstrap, which it installs. Environment:
  MILLRACE_BARE_DIR   where the tree is kept; by default ~/.cache/millrace/bare
  MILLRACE_BARE_LOGS  a folder into which the build logs of the clone are copied
  MILLRACE_BARE_SHARED  a folder that is /shared on the machine, for example to take a package to another one
  CCACHE_DISABLE      if set, compiles without the compiler cache
TEXT
}

die() { printf 'bare_machine: %s\n' "$*" >&2; exit 1; }

# Makes the tree under a temporary name first, so that a killed run does not leave a half-made tree.
make_tree() {
  [ -d "$tree" ] && return
  command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap >/dev/null; }
  local mirror made="$tree.$$"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
  printf '== making the bare tree %s\n' "$tree"
  # Includes ccache, which shares the compiler cache and does not depend on a compiler.
  debootstrap --variant=minbase --include=ccache bookworm "$made" "$mirror" >"$made.log" 2>&1 ||
    { tail -n 20 "$made.log"; die "debootstrap failed; its log is $made.log"; }
  # The downloaded packages are no longer needed. The mirror is that of this machine.
  rm -rf "$made/var/cache/apt/archives" "$made/etc/apt/sources.list" && mkdir -p "$made/var/cache/apt/archives/partial"
  cp -a /etc/apt/sources.list* "$made/etc/apt/"
  find /etc/apt/apt.conf.d -type f ! -name 'docker-*' -exec cp {} "$made/etc/apt/apt.conf.d/" \;
  local name
  for name in gcc c++ python3 mpirun git; do
    [ ! -e "$made/usr/bin/$name" ] || die "the tree has $name: it is not bare"
  done
  mv "$made" "$tree"
}

# Mounts the machine on $root, in a separate mount namespace: the mounts disappear with it.
mount_machine() {
  mkdir -p "$work/upper" "$work/work" "$root" "$archives/partial" "$cache"
  mount -t overlay overlay -o "lowerdir=$tree,upperdir=$work/upper,workdir=$work/work" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  local device number stream
  for device in null zero full random urandom tty fuse; do
    if [ -e "/dev/$device" ]; then cp -a "/dev/$device" "$root/dev/$device"; fi
  done
  # For tests that cut the power of a disk. The kernel chooses the number.
  if [ -e /dev/loop-control ]; then
    cp -a /dev/loop-control "$root/dev/"
    for number in {0..63}; do mknod -m 600 "$root/dev/loop$number" b 7 "$number"; done
  fi
  mkdir "$root/dev/pts" "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  number=0
  for stream in stdin stdout stderr; do ln -s "/proc/self/fd/$number" "$root/dev/$stream"; number=$((number + 1)); done
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mkdir -p "$root/root/.cache/ccache"
  mount --bind "$archives" "$root/var/cache/apt/archives"
  mount --bind "$cache" "$root/root/.cache/ccache"
  if [ -n "${MILLRACE_BARE_SHARED:-}" ]; then mkdir "$root/shared" && mount --bind "$MILLRACE_BARE_SHARED" "$root/shared"; fi
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
}

# pivot_root, not chroot: user namespaces, which some tests make, are refused in a chroot.
enter_machine() {
  mount_machine
  mkdir -p "$root/old"
  cd "$root"
  pivot_root . old
  umount -l /old
  rmdir /old
  cd ~root/millrace
  local disable=()
  if [ -n "${CCACHE_DISABLE:-}" ]; then disable=(CCACHE_DISABLE=1); fi
  # Not exec: this bash is the first process of the machine and reaps orphans. ctest would not.
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    TERM="${TERM:-dumb}" ${CI:+CI="$CI"} "${disable[@]}" bash -c "$1"
}

if [ "${1:-}" = --inside ]; then
  shift
  enter_machine "$@"
  exit
fi
case "${1:-}" in
  '') usage >&2; exit 2 ;;
  -h | --help) usage; exit 0 ;;
esac
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || die "this needs root to mount a tree; run it with sudo"
command -v apt-get >/dev/null || die "this is not Debian: apt-get is needed to make the tree"

place="${MILLRACE_BARE_DIR:-$HOME/.cache/millrace/bare}"
mkdir -p "$place"
tree="$place/bookworm"
archives="$place/archives"
cache=$(ccache --get-config cache_dir 2>/dev/null || echo "$HOME/.cache/ccache")
make_tree

work=$(mktemp -d "$place/run.XXXXXX")
root="$work/root"
finish() {
  if [ -n "${MILLRACE_BARE_LOGS:-}" ]; then
    mkdir -p "$MILLRACE_BARE_LOGS"
    cp -f "$work"/upper/root/millrace/build/*.log "$MILLRACE_BARE_LOGS"/ 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
}
trap finish EXIT
mkdir -p "$work/upper/root"
git clone -q --no-hardlinks . "$work/upper/root/millrace"

export tree archives cache work root
unshare --mount --propagation private --pid --fork --kill-child "$0" --inside "$*" <&0 &
machine=$!
# unshare ignores both signals, and so does the first process of the machine. When the latter is killed, the kernel
# ends all others before unshare sees it, so nothing writes any more when finish() removes the files.
stop() {
  trap '' INT TERM
  local first
  first=$(cat "/proc/$machine/task/$machine/children" 2>/dev/null) || true
  kill -KILL ${first:-"$machine"} 2>/dev/null || true
  wait "$machine" || true
  exit $((128 + $1))
}
trap 'stop 2' INT
trap 'stop 15' TERM
wait "$machine"
