#!/usr/bin/env bash
# Builds Millrace for aarch64 on an x86_64 Debian machine and runs its unit tests under qemu-user.
#
# Everything is installed into a separate Debian tree, so that this machine gets no foreign packages. The tree is kept
# for the next run. Mounts are made in a private namespace, and disappear when the command in the tree ends.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh

tree=${MILLRACE_AARCH64_TREE:-/var/tmp/millrace-aarch64}
skipped_file=tools/aarch64_skipped.txt
suite=bookworm

usage() {
  cat <<TEXT
Usage: tools/aarch64.sh [CTEST ARGUMENT...]

Makes a Debian tree with a cross compiler, qemu-user and the arm64 libraries, builds the preset aarch64 there into
build/aarch64, and runs the unit tests under qemu-user, except those in $skipped_file. Arguments go to ctest.
Needs root and debootstrap. The tree is $tree; set MILLRACE_AARCH64_TREE to change it.
TEXT
}

# in_tree COMMAND...: runs it in the tree, in this directory, with the compiler cache of this machine.
in_tree() {
  local cache="${CCACHE_DIR:-$HOME/.cache/ccache}"
  mkdir -p "$cache" "$tree/ccache" "$tree$PWD"
  unshare --mount bash -euc '
    tree=$1 cache=$2
    shift 2
    mount --bind "$tree" "$tree"  # so that the root of the tree is a mount point, as on a real machine
    mount -t proc proc "$tree/proc"
    mount -t tmpfs tmpfs "$tree/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$tree/dev/pts"
    mount --bind "$tree/dev/pts/ptmx" "$tree/dev/ptmx"
    mount --bind "$cache" "$tree/ccache"
    mount --bind "$PWD" "$tree$PWD"
    exec chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8 CCACHE_DIR=/ccache \
      DEBIAN_FRONTEND=noninteractive sh -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"' bash "$tree" "$cache" "$@"
}

# The libraries of tools/packages.txt as arm64 packages. Only one MPI: apt cannot install two for another
# architecture.
arm64_libraries() {
  packages_of core test | while IFS='|' read -r package _; do
    case "$package" in libmpich-dev) ;; lib*-dev | zlib*-dev) printf '%s:arm64\n' "$package" ;; esac
  done
}

make_tree() {
  if [ ! -e "$tree/made" ]; then
    command -v debootstrap >/dev/null 2>&1 || die "debootstrap is missing: apt-get install debootstrap"
    say "making a Debian tree in $tree"
    debootstrap --variant=minbase "$suite" "$tree" >"$log" 2>&1 || { tail "$log"; die "debootstrap failed"; }
    in_tree dpkg --add-architecture arm64
    touch "$tree/made"
  fi
  say "installing a cross compiler, qemu-user and arm64 libraries there"
  in_tree apt-get update -qq >"$log" 2>&1 || { cat "$log"; die "apt-get update failed"; }
  # shellcheck disable=SC2046  # one word per package
  in_tree apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends \
    g++-aarch64-linux-gnu qemu-user cmake ninja-build ccache python3 $(arm64_libraries) >"$log" 2>&1 ||
    { tail "$log"; die "apt-get install failed; the log is $log"; }
}

build() {
  say "building build/aarch64"
  { in_tree cmake --preset aarch64 && in_tree cmake --build --preset aarch64; } >"$log" 2>&1 ||
    { tail -n 50 "$log"; die "the build failed; the log is $log"; }
  grep -E '^-- part ' "$log"
}

# The patterns of skipped tests, one per line.
skipped_patterns() { sed -n 's,^\([^# ][^ ]*\) *| .*,\1,p' "$skipped_file"; }

# check_patterns NAMES: every pattern must still match a test.
check_patterns() {
  local pattern
  while read -r pattern; do
    grep -Exq -- "$pattern" <<<"$1" || die "$skipped_file: no unit test is called '$pattern'; remove that line"
  done < <(skipped_patterns)
}

# junit_count NAME: the value of the attribute for the whole run, from the first line that has it.
junit_count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" build/aarch64/unit_tests.xml | head -n 1; }

run_tests() {
  local status=0 names all run failed not_run
  names=$(in_tree ctest --preset aarch64 -N | sed -n 's/^ *Test *#[0-9]*: //p')
  check_patterns "$names"
  all=$(in_tree ctest --preset aarch64 -N "$@" | sed -n 's/^Total Tests: //p')
  say "unit tests under qemu-user"
  in_tree ctest --preset aarch64 --parallel "$(nproc)" -E "^($(skipped_patterns | paste -s -d '|'))\$" \
    --output-junit unit_tests.xml "$@" >"$log" 2>&1 || status=$?
  sed -n '/tests passed/,$p' "$log"
  run=$(junit_count tests) failed=$(junit_count failures) not_run=$(($(junit_count skipped) + $(junit_count disabled)))
  say "$((run - failed - not_run)) of $all unit tests passed under qemu-user, $failed failed," \
    "$not_run skipped themselves, $((all - run)) were excluded ($skipped_file); the log is $log"
  return "$status"
}

case "${1:-}" in -h | --help) usage; exit 0 ;; esac
[ "$(id -u)" = 0 ] || die "this needs root, for debootstrap and chroot"
mkdir -p build
log=build/aarch64.log
make_tree
build
log=build/aarch64-tests.log
run_tests "$@"
