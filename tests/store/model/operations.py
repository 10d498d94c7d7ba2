"""Random operations on the names of a dataset, and what a store refuses. See model_test.py.

`generate` makes lines for driver.c. `judge` says what of an operation a store must refuse: everything else has to be as
in a plain directory."""

import os
import random
import stat
from typing import NamedTuple, Optional

# The dataset: few names, of every kind. Operations use these names and two more, so they meet.
FILES = {"a/f": (5000, 0o644), "a/g": (0, 0o640), "a/b/f": (70, 0o600), "r": (300, 0o444)}
FOLDERS = {"a": 0o755, "a/b": 0o750, "d": 0o555}
LINKS = {"l": "a/f", "ld": "a", "lb": "a/n", "a/up": "../r", "a/b/lx": "n"}
LEVELS = (("a", "a", "a", "n", "n", "n", "m", "m", "d", "r", "l", "ld", "lb"), ("f", "n", "n", "m", "m", "b", "g", "up"),
          ("f", "n", "m", "lx"))
TARGETS = ("n", "m", "f", "b", "a/n", "n/m", "../n", "../a", "../a/f", "../n/m", ".", "..", "@/a/n", "@/n", "@/n/m", "@/a/f",
           "@/d", "@", "%/o")
SLOTS = 8
DIRECTORY_SLOTS = (6, 7)  # mostly directories, for openat
SIZES = (0, 1, 7, 100, 4096, 5000, 9000)
OFFSETS = (0, 1, 50, 4095, 6000)
MODES = (0o644, 0o600, 0o444, 0o755, 0o700, 0o4755)
TIMES = (0, 1, 1_000_000_000)
ATTRIBUTES = ("user.x", "user.y")
WRITES = os.O_WRONLY | os.O_RDWR
NOREPLACE, EXCHANGE = 1, 2
AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW = 0x100, 0x200, 0x400


# Other calls that an operation can make instead of its own, with the same arguments and the same result. See driver.h.
OTHER_CALLS = {
    "access": "eaccess euidaccess",
    "advise": "posix_fadvise64 readahead",
    "allocate": "fallocate64 posix_fallocate posix_fallocate64",
    "cat": "_Fork __vfork execl execle execlp execv execve execveat execvp execvpe fexecve posix_spawn posix_spawnp "
           "posix_spawn_file_actions_addchdir_np posix_spawn_file_actions_addopen system vfork",
    "chown": "fchownat",
    "close": "__close close_range",
    "connect": "sendto",
    "creat": "creat64",
    "dup2": "__dup2 dup3",
    "dupfd": "__fcntl fcntl64",
    "exec": "execl execle execv execve execveat fexecve posix_spawn",
    "fdopendir": "getdents64",
    "fopen": "fopen64 freopen freopen64",
    "fstat": "__fxstat __fxstat64 fstat64",
    "fstatat": "__fxstatat __fxstatat64 fstatat64",
    "fstatfs": "fstatfs64 fstatvfs fstatvfs64",
    "fsync": "aio_fsync aio_fsync64 syncfs",
    "ftruncate": "ftruncate64",
    "fts": "fts64_children fts64_close fts64_open fts64_read fts64_set fts_children fts_set",
    "ftw": "ftw64",
    "futimens": "futimes",
    "getcwd": "__getcwd_chk get_current_dir_name getwd",
    "getfl": "__fcntl fcntl64",
    "glob": "glob64",
    "inherit": "__fcntl fcntl64",
    "instead": "accept accept4 epoll_create epoll_create1 eventfd inotify_init inotify_init1 memfd_create pipe pipe2 "
               "posix_openpt signalfd socketpair timerfd_create",
    "lchown": "fchownat",
    "lock": "__fcntl fcntl64",
    "lockf": "lockf64",
    "lseek": "__lseek lseek64",
    "lstat": "__lxstat __lxstat64 lstat64",
    "map_read": "mmap64",
    "map_write": "mmap64",
    "mkfifo": "__xmknod __xmknodat mkfifoat mknod mknodat",
    "mkstemp": "mkostemp mkostemp64 mkostemps mkostemps64 mkstemp64 mkstemps mkstemps64",
    "nftw": "nftw64",
    "open": "__open __open64 __open64_2 __open_2 open64",
    "openat": "__openat64_2 __openat_2 openat64",
    "opendir": "readdir64 readdir64_r readdir_r",
    "pass": "sendmmsg",
    "poll": "__poll_chk epoll_ctl ppoll pselect select",
    "pread": "__pread64 __pread64_chk __pread_chk aio_read aio_read64 lio_listio lio_listio64 pread64 preadv preadv2 preadv64 "
             "preadv64v2",
    "pwrite": "aio_write aio_write64 lio_listio lio_listio64",
    "read": "__read __read_chk preadv2 readv",
    "readlink": "__readlinkat_chk readlink",
    "realpath": "__realpath_chk canonicalize_file_name",
    "scandir": "scandir64",
    "scandirat": "scandirat64",
    "sendfile": "sendfile64",
    "setfl": "__fcntl fcntl64",
    "stat": "__xstat __xstat64 stat64",
    "statfs": "statfs64 statvfs statvfs64",
    "truncate": "truncate64",
    "utime": "utimes",
    "watch": "fanotify_mark",
}
OTHER_CALLS = {operation: calls.split() for operation, calls in OTHER_CALLS.items()}
WITHOUT_MODE = ("__open_2", "__open64_2", "__openat_2", "__openat64_2")  # they cannot create a file
LIMITS = (3, 4, 5, 6, 99)  # _PC_NAME_MAX to _PC_CHOWN_RESTRICTED, which are those of all file systems, and none


def make_dataset(root: str) -> None:
    for name, mode in FOLDERS.items():
        os.mkdir(f"{root}/{name}", mode)
    for name, (size, mode) in FILES.items():
        with open(f"{root}/{name}", "wb") as file:
            file.write(random.Random(name).randbytes(size))
        os.chmod(f"{root}/{name}", mode)
        os.utime(f"{root}/{name}", (1_500_000_000, 1_500_000_000))
    for name, target in LINKS.items():
        os.symlink(target, f"{root}/{name}")


DATASET = frozenset(("", *FILES, *FOLDERS, *LINKS))


# ---- operations ---------------------------------------------------------------------------------

class Generator:
    """The operations of one seed: lines for driver.c. They do not depend on what the operations do."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.choice = self.random.choice

    def below(self) -> str:
        """A path below the root, without the root."""
        depth = self.random.choices((1, 2, 3), (6, 5, 1))[0]
        parts = [self.choice(LEVELS[level]) for level in range(depth)]
        if self.random.random() < 0.06:
            parts.insert(self.random.randrange(depth), self.choice((".", "./", "n/..", "a/..")))
        return "/".join(parts)

    def path(self) -> str:
        draw = self.random.random()
        if draw < 0.02:
            return "@"
        if draw < 0.04:
            return "%/" + self.choice(("o", "p"))
        if draw < 0.045:
            return "''"
        end = "/" if self.random.random() < 0.03 else ""
        if draw < 0.25:
            return (self.choice((self.below(), self.choice(LEVELS[1]), "../" + self.choice(LEVELS[0]))) or ".") + end
        return "@/" + self.below() + end

    def place(self) -> str:
        """A descriptor of a directory and a path."""
        slot = str(self.choice(DIRECTORY_SLOTS)) if self.random.random() < 0.4 else "-"
        return f"{slot} {self.choice((self.choice(LEVELS[1]), self.below()))}" if slot != "-" else f"- {self.path()}"

    def slot(self) -> int:
        return self.random.randrange(SLOTS) if self.random.random() < 0.05 else self.random.randrange(3)

    def flags(self) -> int:
        flags = self.choice((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR))
        for flag, chance in ((os.O_CREAT, 0.6), (os.O_EXCL, 0.15), (os.O_APPEND, 0.2), (os.O_TRUNC, 0.2),
                             (os.O_DIRECTORY, 0.06), (os.O_NOFOLLOW, 0.1), (os.O_CLOEXEC, 0.3), (os.O_PATH, 0.03)):
            if self.random.random() < chance:
                flags |= flag
        if flags & os.O_CREAT and flags & os.O_DIRECTORY:
            flags &= ~os.O_CREAT  # its meaning depends on the kernel
        return flags | os.O_NONBLOCK

    def opens(self) -> str:
        draw = self.random.random()
        if draw < 0.25:
            return f"openat {self.choice(DIRECTORY_SLOTS)} {self.place()} {os.O_RDONLY | os.O_DIRECTORY} 0"
        if draw < 0.31:
            flags = os.O_TMPFILE | self.choice((os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_EXCL))
            return f"openat {self.slot()} {self.place()} {flags} {0o600}"
        if draw < 0.5:
            return f"openat {self.slot()} {self.place()} {self.flags()} {self.choice(MODES)}"
        if draw < 0.54:
            return f"creat {self.slot()} {self.path()} {self.choice(MODES)}"
        return f"open {self.slot()} {self.path()} {self.flags()} {self.choice(MODES)}"

    def bytes(self) -> str:
        size, tag, offset, slot = self.choice(SIZES), self.random.randrange(26), self.choice(OFFSETS), self.slot()
        return self.choice((
            f"write {slot} {size} {tag}", f"write {slot} {size} {tag}", f"pwrite {slot} {size} {offset} {tag}",
            f"read {slot} {size}", f"read {slot} {size}", f"pread {slot} {size} {offset}",
            f"lseek {slot} {self.choice(OFFSETS)} {self.random.randrange(3)}", f"ftruncate {slot} {size}",
            f"truncate {self.path()} {size}", f"fsync {slot}", f"fdatasync {slot}", f"map_write {slot} {offset} {size} {tag}",
            f"map_read {slot} {self.random.randrange(2)}", f"copy_range {slot} {self.slot()} {size}",
            f"sendfile {slot} {self.slot()} {size}",
            f"fopen {self.path()} {self.choice(('r', 'r+', 'w', 'w+', 'a', 'a+', 'wx', 're'))} {size} {tag}",
            f"cat {self.path()}" if self.random.random() < 0.2 else f"fopen {self.path()} r {size} {tag}"))

    def descriptors(self) -> str:
        slot, other = self.slot(), self.slot()
        return self.choice((
            f"close {slot}", f"close {slot}", f"dup {slot} {other}", f"dup2 {slot} {other}", f"dupfd {slot} {other}",
            f"flock {slot} {self.choice((1, 2, 8))}", f"lock {slot} {self.choice((0, 1, 2))} {self.choice((0, 5, 20))}",
            f"getfl {slot}", f"setfl {slot} {self.choice((0, os.O_APPEND))}"))

    def names(self) -> str:
        flags = self.choice((0, 0, NOREPLACE, NOREPLACE, EXCHANGE, EXCHANGE, NOREPLACE | EXCHANGE))
        return self.choice((
            f"mkdir {self.path()} {self.choice((0o755, 0o700))}", f"mkdirat {self.place()} {0o755}", f"mkdir @/{self.below()} {0o755}",
            f"rmdir {self.path()}", f"unlink {self.path()}", f"unlink {self.path()}",
            f"unlinkat {self.place()} {self.choice((0, 0, AT_REMOVEDIR))}", f"remove {self.path()}",
            f"rename {self.path()} {self.path()}", f"rename {self.path()} {self.path()}",
            f"renameat {self.place()} {self.place()}", f"renameat2 {self.place()} {self.place()} {flags}",
            f"renameat2 - {self.path()} - {self.path()} {flags}", f"link {self.path()} {self.path()}",
            f"linkat {self.place()} {self.place()} {self.choice((0, AT_SYMLINK_FOLLOW))}",
            f"symlink {self.choice(TARGETS)} {self.path()}", f"symlinkat {self.choice(TARGETS)} {self.place()}",
            f"link_open {self.slot()} {self.place()}", f"mkfifo {self.path()}",
            f"mkstemp {self.path()} {self.path()} {self.random.randrange(26)}", f"mkdtemp {self.path()} {self.path()}",
            f"tmpfile {self.path()} {self.path()} {self.random.randrange(26)}",
            f"chdir {self.path()}", f"fchdir {self.choice(DIRECTORY_SLOTS)}"))

    def attributes(self) -> str:
        mode, time, name = self.choice(MODES), self.choice(TIMES), self.choice(ATTRIBUTES)
        return self.choice((
            f"stat {self.path()}", f"lstat {self.path()}", f"fstatat {self.place()} {self.choice((0, AT_SYMLINK_NOFOLLOW))}",
            f"statx {self.place()} {self.choice((0, AT_SYMLINK_NOFOLLOW))}", f"fstat {self.slot()}",
            f"access {self.path()} {self.choice((0, 1, 2, 4, 6))}", f"faccessat {self.place()} {self.choice((0, 2, 4))} 0",
            f"readlink {self.place()}", f"chmod {self.path()} {mode}", f"fchmod {self.slot()} {mode}",
            f"fchmodat {self.place()} {mode}", f"chown {self.path()}", f"lchown {self.path()}", f"fchown {self.slot()}",
            f"utime {self.path()} {time}", f"utimensat {self.place()} {time} {self.choice((0, AT_SYMLINK_NOFOLLOW))}",
            f"futimens {self.slot()} {time}", f"setxattr {self.path()} {name} v{mode} {self.choice((0, 1, 2))}",
            f"getxattr {self.path()} {name}", f"listxattr {self.path()}", f"removexattr {self.path()} {name}",
            f"fsetxattr {self.slot()} {name} w{mode}", f"fgetxattr {self.slot()} {name}"))

    def lists(self) -> str:
        return self.choice((
            f"opendir {self.path()}", f"opendir @/{self.choice(('', 'a', 'd', 'n', 'a/b'))}", f"fdopendir {self.place()}",
            f"seekdir {self.path()} {self.random.randrange(7)}", f"scandir {self.path()}",
            f"nftw {self.choice(('@', self.path()))} {self.choice((1, 9))}", f"fts {self.choice(('@', self.path()))} {self.choice((2, 16))}",
            f"glob @/{self.choice(('*', '*/*', 'a/*', 'n/*', '[a-m]*/n', 'n', 'a/?'))} {self.choice((0, 2))}",
            f"glob {self.choice(('*', '*/*', '../*'))} 0", "getcwd", f"realpath {self.path()}", f"tree {self.choice(('@', '@/a', '@/n'))}"))

    def rare(self) -> str:
        """What few programs do."""
        slot, other, size, name = self.slot(), self.slot(), self.choice(SIZES), self.choice(ATTRIBUTES)
        mode, time, limit = self.choice(MODES), self.choice(TIMES), self.choice(LIMITS)
        return self.choice((
            f"advise {slot} {self.choice(OFFSETS)} {size} {self.random.randrange(7)}",
            f"allocate {slot} {self.choice((0, 0, 1))} {self.choice(OFFSETS)} {size}", f"bind {self.path()}", f"cat {self.path()}",
            "closefrom" if self.random.random() < 0.2 else f"inherit {slot} {self.random.randrange(3)}", f"connect {self.path()}",
            f"dlopen {self.path()}", f"exec {self.path()}", f"fdopen {slot} {self.choice(('r', 'w', 'a', 'r+'))} {size}",
            f"flistxattr {slot}", f"fpathconf {slot} {limit}", f"fremovexattr {slot} {name}", f"fstatfs {slot}", f"ftok {self.path()}",
            f"ftw {self.choice(('@', self.path()))}", f"futimesat {self.place()} {time}",
            f"handle {self.place()} {self.choice((0, AT_SYMLINK_FOLLOW))}", f"instead {slot}", f"lchmod {self.path()} {mode}",
            f"lgetxattr {self.path()} {name}", f"llistxattr {self.path()}",
            f"lockf {slot} {self.choice((0, 2, 2, 3))} {self.choice((0, 10))}", f"lremovexattr {self.path()} {name}",
            f"lsetxattr {self.path()} {name} v{mode} {self.choice((0, 1, 2))}", f"lutimes {self.path()} {time}",
            f"mknodat {self.place()} {mode}", f"pass {slot} {other}", f"pathconf {self.path()} {limit}", f"poll {slot}",
            f"scandirat {self.place()}", f"splice {slot} {other} {size}", f"statfs {self.path()}",
            f"sync_file_range {slot} {self.choice(OFFSETS)} {size}", f"terminal {slot}", f"watch {self.path()}",
            f"wordexp {self.choice(('@/', '', 'a/'))}{self.choice(('*', '*/*', 'n*', '[a-m]*', 'n'))}"))

    def by_another_call(self, line: str) -> str:
        words = line.split()
        calls = OTHER_CALLS.get(words[0], ())
        if words[0] in ("open", "openat") and int(words[-2]) & (os.O_CREAT | os.O_TMPFILE ^ os.O_DIRECTORY):
            calls = [call for call in calls if call not in WITHOUT_MODE]
        if not calls or self.random.random() < 0.5:
            return line
        return f"{words[0]}:{self.choice(calls)}{line[len(words[0]):]}"

    def line(self) -> str:
        kinds = (self.opens, self.bytes, self.descriptors, self.names, self.attributes, self.lists, self.rare)
        line = self.by_another_call(self.random.choices(kinds, (22, 25, 6, 27, 14, 9, 20))[0]())
        draw = self.random.random()
        if ":aio_" in line or ":lio_" in line:  # in a child, the C library waits for a thread of the parent
            return line
        return ("fork " if draw < 0.02 else "thread " if draw < 0.03 else "") + line


    def making(self) -> str:
        """One of the first operations, so that there is something."""
        return self.choice((
            f"mkdir @/{self.choice(('n', 'm', 'a/n', 'd/n', 'n/n'))} {0o755}",
            f"open {self.slot()} @/{self.below()} {os.O_CREAT | os.O_RDWR} {0o644}",
            f"openat {self.choice(DIRECTORY_SLOTS)} - @/{self.choice(('', 'a', 'n', 'd', 'a/b', 'm'))} {os.O_DIRECTORY} 0",
            f"fopen @/{self.below()} w 100 1", f"write {self.slot()} 5000 3", f"symlink {self.choice(TARGETS)} @/{self.below()}"))


def generate(seed: int, count: int, driver_count: int) -> list[tuple[int, str]]:
    """(index of a driver, line for it)."""
    generator = Generator(seed)
    return [(generator.random.randrange(driver_count), generator.making() if number < count / 8 else generator.line())
            for number in range(count)]


# ---- what a store refuses -----------------------------------------------------------------------

class Found(NamedTuple):
    """Where a path leads in the plain directory. `name` is relative to the root, None outside of it."""
    name: Optional[str]
    kind: str  # of what is there: f d l p, or empty
    escapes: bool = False  # it leaves the root by `..`, where a store may differ from a plain directory
    has_parent: bool = True
    in_dataset: bool = False
    returns: bool = False  # a link outside leads below the root


NOWHERE = Found(None, "", has_parent=False)


def kind_of(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    return "d" if stat.S_ISDIR(mode) else "l" if stat.S_ISLNK(mode) else "p" if stat.S_ISFIFO(mode) else "f"


def find(root: str, outside: str, base: str, path: str, follow: bool) -> Found:
    """Follows a path through a plain directory, as the kernel does."""
    if path == "":
        return NOWHERE
    here = base
    parts = path.split("/")
    follow = follow or path.endswith(("/", "/."))
    if path[0] in "@%":
        here, parts = root if path[0] == "@" else outside, parts[1:]
    if not here or os.path.isfile(here):
        return NOWHERE  # of a descriptor that is not open, or of a file
    if path[0] == "/" or not (here + "/").startswith((root + "/", outside + "/")):
        return Found(None, "", escapes=True)
    parts = [part for part in parts if part not in ("", ".")]
    links, returns = 0, False
    while parts:
        part, parts = parts[0], parts[1:]
        if part == "..":
            if here in (root, outside):
                return Found(None, "", escapes=True)
            here = os.path.dirname(here)
            continue
        there = f"{here}/{part}"
        kind = kind_of(there)
        if kind == "l" and (parts or follow):
            links += 1
            if links > 40:
                return NOWHERE
            target = os.readlink(there)
            if target.startswith("/"):
                prefix = next((top for top in (root, outside) if (target + "/").startswith(top + "/")), None)
                if prefix is None:
                    return NOWHERE
                returns |= prefix == root and not (here + "/").startswith(root + "/")
                here, target = prefix, target[len(prefix):]
            parts = [step for step in target.split("/") if step not in ("", ".")] + parts
            continue
        if parts and kind != "d":
            return Found(None, "", escapes=False, has_parent=False)
        if not parts and kind == "":
            name = os.path.relpath(there, root) if there.startswith(root + "/") else None
            return Found(name, "", has_parent=os.path.isdir(here), returns=returns)
        here = there
    if here == root:
        return Found("", "d", returns=returns)
    kind = kind_of(here)
    if path.endswith("/") and kind != "d":
        return NOWHERE
    return Found(here[len(root) + 1:] if here.startswith(root + "/") else None, kind, returns=returns)


class Verdict(NamedTuple):
    """`refused`: the answers of a store to an operation that the plain directory would do. `also`: answers of a store
    that are right too. `skip`: do not do it."""
    refused: frozenset = frozenset()
    also: frozenset = frozenset()
    skip: bool = False
    bad_paths: bool = False  # two paths: which of two bad ones is seen first is not compared


NATIVE = Verdict()
BAD_PATHS = Verdict(bad_paths=True)
BAD_PATH_ERRORS = ("ENOENT", "ENOTDIR", "EBADF", "ELOOP")
SLASH_ERRORS = (*BAD_PATH_ERRORS, "EISDIR", "EEXIST", "EROFS", "EADDRINUSE")  # of a path that ends with a slash: several may apply
SKIP = Verdict(skip=True)


def refused(*answers: str) -> Verdict:
    return Verdict(refused=frozenset(answers))


class Judge:
    """What a store may answer. `where(descriptor)` is the directory of a descriptor or None; `holds(slot)` what it has open.
    If the dataset really is at the root, the kernel follows links from outside, and nothing refuses to change it."""

    def __init__(self, root: str, outside: str, dataset: frozenset, several_hosts: bool, is_at_root: bool = False) -> None:
        self.root, self.outside, self.dataset, self.several_hosts, self.is_at_root = root, outside, dataset, several_hosts, is_at_root

    def judge(self, words: list[str], where, holds) -> Verdict:
        words = words[1:] if words[0] in ("fork", "thread") else words
        operation, arguments = words[0].split(":")[0], words[1:]

        def at(path: str, descriptor: str = "-", follow: bool = True) -> Found:
            found = find(self.root, self.outside, where(descriptor) or "", "" if path == "''" else path, follow)
            escapes = found.escapes or self.is_at_root and found.returns
            return found._replace(in_dataset=found.name in self.dataset, escapes=escapes)

        method = getattr(self, "judge_" + operation, None)
        if method is not None:
            return method(arguments, at, holds)
        if operation in CHANGES_BY_PATH:
            return self.change(at(arguments[0]))
        if operation in CHANGES_BY_DESCRIPTOR:
            return refused("EROFS", "EBADF", "EOPNOTSUPP") if holds(arguments[0]) in self.dataset else NATIVE
        if operation in WALKS:
            return SKIP if at(arguments[0]).escapes or self.has_links_out() else NATIVE
        if operation in LOOKS:
            return SKIP if at(*arguments[:1]).escapes or at(arguments[0], follow=False).escapes else NATIVE
        if operation in LOOKS_AT:
            return SKIP if at(arguments[1], arguments[0]).escapes or at(arguments[1], arguments[0], False).escapes else NATIVE
        return NATIVE

    @staticmethod
    def change(found: Found, *also: str) -> Verdict:
        if found.escapes:
            return SKIP
        if not found.in_dataset:
            return NATIVE
        return refused("EROFS", *(("EISDIR",) if found.kind == "d" else ()), *also)

    def has_links_out(self) -> bool:
        for folder, folders, files in os.walk(self.root):
            for name in folders + files:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    found = find(self.root, self.outside, folder, name, True)
                    if found.escapes or os.readlink(path).startswith(self.outside):
                        return True
        return False

    def judge_fchmodat(self, arguments, at, _holds):
        return self.change(at(arguments[1], arguments[0]))

    def judge_utimensat(self, arguments, at, _holds):
        return self.change(at(arguments[1], arguments[0], int(arguments[3]) != AT_SYMLINK_NOFOLLOW))

    def judge_futimesat(self, arguments, at, _holds):
        return self.change(at(arguments[1], arguments[0]))

    def judge_lchown(self, arguments, at, _holds):
        return self.change(at(arguments[0], follow=False))

    judge_lchmod = judge_lutimes = judge_lchown

    def judge_setxattr(self, arguments, at, _holds):
        return self.change(at(arguments[0]), "EOPNOTSUPP", "ENODATA")

    judge_removexattr = judge_setxattr

    def judge_lsetxattr(self, arguments, at, _holds):
        return self.change(at(arguments[0], follow=False), "EOPNOTSUPP", "ENODATA")

    judge_lremovexattr = judge_lsetxattr

    def judge_getxattr(self, arguments, at, _holds, follow=True):
        found = at(arguments[0], follow=follow)
        if found.escapes:
            return SKIP
        return Verdict(also=frozenset(("EOPNOTSUPP", "ENODATA", "xattrs"))) if found.in_dataset else NATIVE

    judge_listxattr = judge_getxattr

    def judge_lgetxattr(self, arguments, at, holds):
        return self.judge_getxattr(arguments, at, holds, False)

    judge_llistxattr = judge_lgetxattr

    def judge_fgetxattr(self, arguments, _at, holds):
        return Verdict(also=frozenset(("EOPNOTSUPP", "ENODATA"))) if holds(arguments[0]) in self.dataset else NATIVE

    judge_flistxattr = judge_fgetxattr

    # Removing and renaming.

    def judge_unlink(self, arguments, at, _holds):
        found = at(arguments[0], follow=False)
        return self.change(found, *(("ENOTDIR",) if arguments[0].endswith("/") else ()), "EISDIR" if found.kind == "d" else "EROFS")

    def judge_rmdir(self, arguments, at, _holds):
        found = at(arguments[0], follow=False)
        more = ("ENOTEMPTY", "EBUSY", "EINVAL") if found.kind == "d" else ("ENOTDIR",)
        return self.change(found, *more)

    def judge_remove(self, arguments, at, _holds):
        return self.change(at(arguments[0], follow=False), "ENOTEMPTY", "EBUSY", "EINVAL", "ENOTDIR")

    def judge_unlinkat(self, arguments, at, holds):
        descriptor, path, flags = arguments
        found = at(path, descriptor, False)
        return (self.judge_rmdir if int(flags) else self.judge_unlink)([path], lambda *_, **__: found, holds)

    def rename(self, source: Found, target: Found, flags: int, same_word: bool, slash: bool) -> Verdict:
        if source.escapes or target.escapes:
            return SKIP
        if not source.in_dataset and not target.in_dataset:
            return BAD_PATHS if not slash else Verdict(also=frozenset(("EXDEV",)), bad_paths=True)
        if flags == NOREPLACE | EXCHANGE:
            return refused("EINVAL")
        right = {"EROFS"}
        if not source.kind or not target.has_parent or not source.has_parent or (flags & EXCHANGE and not target.kind):
            right |= {*BAD_PATH_ERRORS}
        if flags & NOREPLACE and target.kind:
            right |= {"EEXIST"}
        if source.kind == "d" and target.kind != "d" or slash:
            right |= {"ENOTDIR"}
        if target.kind == "d":
            right |= {"EISDIR", "ENOTEMPTY", "EEXIST"} if source.kind != "d" else {"ENOTEMPTY", "EEXIST"}
        if source.name is not None and target.name is not None:
            inside = (source.name == "" or (target.name + "/").startswith(source.name + "/") or target.name == "" or
                      (source.name + "/").startswith(target.name + "/"))
            right |= {"EINVAL", "ENOTEMPTY"} if inside else set()
            right |= {"0", "EINVAL"} if source.name == target.name or same_word else set()
        if "" in (source.name, target.name):
            right |= {"EBUSY", "EXDEV", "EINVAL"}
        if source.name is None or target.name is None:
            right |= {"EXDEV", "ENOENT"}
        if not target.has_parent:
            right |= {"EXDEV"}
        return refused(*right)

    def judge_rename(self, arguments, at, _holds):
        source, target = arguments
        return self.rename(at(source, follow=False), at(target, follow=False), 0, source == target, "/" in (source[-1], target[-1]))

    def judge_renameat(self, arguments, at, _holds):
        source, target = at(arguments[1], arguments[0], False), at(arguments[3], arguments[2], False)
        flags = int(arguments[4]) if len(arguments) > 4 else 0
        return self.rename(source, target, flags, False, "/" in (arguments[1][-1], arguments[3][-1]))

    judge_renameat2 = judge_renameat

    def judge_mkstemp(self, arguments, at, _holds):
        folder, target = at(arguments[0]), at(arguments[1], follow=False)
        return SKIP if folder.escapes or target.escapes or target.in_dataset else NATIVE

    judge_mkdtemp = judge_tmpfile = judge_mkstemp

    @staticmethod
    def link(source: Found, target: Found, slash: bool) -> Verdict:
        if source.escapes or target.escapes:
            return SKIP
        if slash:
            return Verdict(also=frozenset((*SLASH_ERRORS, "EXDEV", "EPERM")))
        if not source.in_dataset:
            return Verdict(also=frozenset(("EROFS", "EEXIST"))) if target.in_dataset and not source.kind else BAD_PATHS
        right = {"EROFS", "EXDEV"}
        right |= {"EPERM"} if source.kind == "d" else set()
        right |= {"EEXIST"} if target.kind else set()
        right |= {*BAD_PATH_ERRORS} if not target.has_parent or not target.kind else set()
        return refused(*right)

    def judge_link(self, arguments, at, _holds):
        return self.link(at(arguments[0], follow=False), at(arguments[1], follow=False),
                         "/" in (arguments[0][-1], arguments[1][-1]))

    def judge_linkat(self, arguments, at, _holds):
        follow = int(arguments[4]) == AT_SYMLINK_FOLLOW
        return self.link(at(arguments[1], arguments[0], follow), at(arguments[3], arguments[2], False),
                         "/" in (arguments[1][-1], arguments[3][-1]))

    def judge_link_open(self, arguments, at, holds):
        target = at(arguments[2], arguments[1], False)
        if target.escapes or holds(arguments[0]) is None:  # also if it is not open
            return SKIP
        return refused("EROFS", "EXDEV", "EPERM", "EEXIST", *BAD_PATH_ERRORS) if holds(arguments[0]) in self.dataset else BAD_PATHS

    def judge_symlink(self, arguments, at, _holds):
        return SKIP if at(arguments[1], follow=False).escapes else NATIVE

    def judge_symlinkat(self, arguments, at, _holds):
        return SKIP if at(arguments[2], arguments[1], False).escapes else NATIVE

    def judge_glob(self, arguments, at, _holds):
        leaves = arguments[0].startswith("..") and at("..").escapes
        return SKIP if leaves or self.has_links_out() else NATIVE

    # Opening.

    def open(self, found: Found, flags: int) -> Verdict:
        if found.escapes:
            return SKIP
        changes = flags & (WRITES | os.O_TRUNC) and not flags & os.O_PATH
        exclusive = flags & os.O_CREAT and flags & os.O_EXCL
        if not changes or not found.in_dataset or exclusive or flags & os.O_TMPFILE == os.O_TMPFILE:
            return NATIVE
        if found.kind != "f":
            return Verdict(also=frozenset(("EROFS",)))
        return refused("EROFS", *(("ENOTDIR",) if flags & os.O_DIRECTORY else ()))

    def judge_open(self, arguments, at, _holds):
        return self.judge_openat([arguments[0], "-", *arguments[1:]], at, _holds)

    def judge_openat(self, arguments, at, _holds):
        flags = int(arguments[3])
        follow = not flags & os.O_NOFOLLOW and not (flags & os.O_CREAT and flags & os.O_EXCL)
        return self.open(at(arguments[2], arguments[1], follow), flags)

    def judge_creat(self, arguments, at, _holds):
        return self.open(at(arguments[1]), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def judge_fopen(self, arguments, at, _holds):
        mode = arguments[1]
        flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC | os.O_WRONLY, "a": os.O_CREAT | os.O_WRONLY}[mode[0]]
        flags |= os.O_RDWR if "+" in mode else 0
        return self.open(at(arguments[0], follow="x" not in mode), flags | (os.O_EXCL if "x" in mode else 0))

    def judge_access(self, arguments, at, _holds):
        found = at(arguments[0])
        if found.escapes:
            return SKIP
        return refused("EROFS", "EACCES") if found.in_dataset and found.kind != "d" and int(arguments[1]) & os.W_OK else NATIVE

    def judge_faccessat(self, arguments, at, _holds):
        found = at(arguments[1], arguments[0])
        if found.escapes:
            return SKIP
        return refused("EROFS", "EACCES") if found.in_dataset and found.kind != "d" and int(arguments[2]) & os.W_OK else NATIVE

    def judge_connect(self, arguments, at, _holds):
        # It is no socket. If it may not be written, the kernel does not look; the store has its own directories in its place.
        found = at(arguments[0])
        if found.escapes:
            return SKIP
        return Verdict(also=frozenset(("ECONNREFUSED",))) if found.in_dataset and found.kind == "d" else NATIVE

    def judge_wordexp(self, arguments, _at, _holds):
        return SKIP if self.has_links_out() else NATIVE

    # Locks on files of the dataset are those of the node.

    def judge_flock(self, arguments, _at, holds):
        return SKIP if self.several_hosts and holds(arguments[0]) in self.dataset else NATIVE

    judge_lock = judge_lockf = judge_flock


CHANGES_BY_PATH = ("chmod", "chown", "utime", "truncate")
CHANGES_BY_DESCRIPTOR = ("fchmod", "fchown", "futimens", "fsetxattr", "fremovexattr")
WALKS = ("nftw", "fts", "ftw", "tree")
LOOKS = ("stat", "lstat", "opendir", "seekdir", "scandir", "realpath", "cat", "chdir", "mkdir", "mkfifo", "bind", "dlopen",
         "exec", "ftok", "pathconf", "statfs", "watch")
LOOKS_AT = ("fstatat", "statx", "readlink", "fdopendir", "mkdirat", "handle", "mknodat", "scandirat")
