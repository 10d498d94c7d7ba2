#!/usr/bin/env python3
"""Checks a linked preload library: it needs only the C library, uses no heap, no exceptions and no stdio, and
exports exactly the symbols of its version script.

Usage: check_preload.py LIBRARY EXPORTS.map"""

import re
import subprocess
import sys

# The libraries that it may need: the parts of the C library, and the loader.
LIBRARIES = re.compile(r"^(libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-[\w-]+\.so\.\d)$")

# The functions of the C library that it may call: none of them takes memory from a heap, a lock or a buffer. Verify
# that before adding one.
CALLS = set("""
__errno_location __environ environ clock_gettime uname on_exit strerrordesc_np getpagesize
dlsym dladdr dlopen dlclose dlerror dl_iterate_phdr
pthread_key_create pthread_setspecific __register_atfork
dirfd fileno_unlocked stdin stdout
getgid getuid
memchr memcmp memcpy memmem memmove memset stpcpy strchr strchrnul strcmp strcspn strlen strncat strncmp strpbrk strrchr
strstr wcslen
posix_spawn_file_actions_destroy posix_spawn_file_actions_init
globfree64 wordfree
__cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable
""".split())


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def listed_exports(path):
    with open(path) as file:
        text = re.sub(r"#[^\n]*", "", file.read())
    body = re.search(r"global:(.*?)local:", text, re.S).group(1)
    return set(re.findall(r"[\w.]+", body))


def symbols(library, which):
    lines = run("nm", "-D", which, library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


def problems(library, exports_path):
    found = []
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library)):
        if not LIBRARIES.match(needed):
            found.append(f"it needs {needed}, but a preload library may need only the C library")
    exported = symbols(library, "--defined-only")
    listed = listed_exports(exports_path)
    for name in sorted(listed - exported):
        found.append(f"{name} is listed in {exports_path}, but not defined")
    for name in sorted(exported - listed):
        found.append(f"{name} is exported, but not listed in {exports_path}")
    for name in sorted(symbols(library, "--undefined-only") - CALLS):
        found.append(f"it calls {name}, which tools/check_preload.py does not allow")
    if "TEXTREL" in run("readelf", "-d", library):
        found.append("it has relocations in its code (TEXTREL)")
    return found


def main():
    library, exports_path = sys.argv[1:]
    found = problems(library, exports_path)
    for problem in found:
        print(f"{library}: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
