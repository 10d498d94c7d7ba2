# Setup: what ./quickstart and ./test share. To be sourced by bash.
#
# On Debian and its derivatives, it installs the packages of tools/packages.txt that are missing.
# Elsewhere it lists what is missing. If nothing is missing, it quickly does nothing.

packages_file="${packages_file:-tools/packages.txt}"

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# The lines of the given groups, without comments and without the spaces around the bars.
packages_of() {
  local groups=" $* " group package probe provides
  while IFS='|' read -r group package probe provides; do
    group=$(trim "$group")
    case "$group" in '' | '#'*) continue ;; esac
    case "$groups" in *" $group "*) ;; *) continue ;; esac
    printf '%s|%s|%s\n' "$(trim "$package")" "$(trim "$probe")" "$(trim "$provides")"
  done <"$packages_file"
}

trim() {
  local text="$1"
  text="${text#"${text%%[![:space:]]*}"}"
  printf '%s' "${text%"${text##*[![:space:]]}"}"
}

# Whether what a package provides is installed, by any means.
is_installed() {
  local kind="${1%%:*}" what="${1#*:}"
  case "$kind" in
    command) command -v "$what" >/dev/null 2>&1 ;;
    header) printf '#include <%s>\n' "$what" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    python) "$(debian_python)" -c "import $what" >/dev/null 2>&1 ;;
    file) compgen -G "$what" >/dev/null ;;
    *) die "$packages_file: '$1' is neither command:, header:, python: nor file:" ;;
  esac
}

# The Python that Debian's modules are installed for; it may not be the first in PATH.
debian_python() { if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi; }

has_apt() { command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null 2>&1; }

# The installed Debian packages, one per line. One call for all, because dpkg-query takes 10 ms.
installed_packages() { dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p'; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null 2>&1 || die "this needs root: $*; run it as root, or install sudo"
  sudo "$@"
}

install_with_apt() {
  say "installing: $*"
  local quiet=(-y -qq -o Dpkg::Use-Pty=0)
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || die "apt-get update failed"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${quiet[@]}" --no-install-recommends "$@" \
    >/dev/null || die "apt-get could not install: $*"
}

# ensure_packages GROUP...: installs all packages of these groups, or exits.
ensure_packages() {
  local package probe provides installed='' missing=() descriptions=()
  if has_apt; then installed=$'\n'"$(installed_packages)"$'\n'; fi
  while IFS='|' read -r package probe provides; do
    case "$installed" in *$'\n'"$package"$'\n'*) continue ;; esac
    if is_installed "$probe"; then continue; fi
    missing+=("$package")
    descriptions+=("$provides (on Debian: $package)")
  done < <(packages_of "$@")
  if [ "${#missing[@]}" = 0 ]; then return; fi
  if has_apt; then
    install_with_apt "${missing[@]}"
    return
  fi
  {
    printf '%s: this is not Debian; please install with your package manager:\n' "${0##*/}"
    printf '  %s\n' "${descriptions[@]}"
    printf 'Without the optional ones, the core builds with: cmake --workflow --preset minimal\n'
  } >&2
  exit 1
}

# Whether a preset must be configured: for the first time, or because a source changed, which may
# change the groups of tools/unity_groups.py.
needs_configuring() {
  local made="build/$1/build.ninja"
  [ ! -f "$made" ] || [ -n "$(find src tests -name '*.cc' -newer "$made" -print -quit)" ]
}

# configure_and_build PRESET: fast if nothing has changed.
configure_and_build() {
  local preset="$1" started=$SECONDS log
  log="build/$preset.log"
  mkdir -p build
  if needs_configuring "$preset"; then
    say "configuring build/$preset"
    cmake --preset "$preset" >"$log" 2>&1 || { cat "$log"; die "configuring failed; the log is $log"; }
    grep -E '^-- part ' "$log" || true
  fi
  say "building build/$preset"
  if [ -t 1 ]; then
    cmake --build --preset "$preset" || die "the build failed"
  else
    cmake --build --preset "$preset" >"$log" 2>&1 || { cat "$log"; die "the build failed; the log is $log"; }
  fi
  say "built in $((SECONDS - started)) s"
}
