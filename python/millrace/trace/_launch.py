"""Starts a Python program under the tracer.

The process becomes the launcher, `millrace trace`, by exec. If the library was chosen by hand
(MILLRACE_TRACE_LIBRARY), or there is no launcher, it becomes the program itself, with the library
preloaded. So arguments, __main__, sys.path, exit code and signals are those of the program. An import
hook, which all Python processes of the job find through PYTHONPATH, marks PyTorch
(docs/design/python-package.md).
"""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from millrace import _trace
from millrace._program import PROGRAM
from millrace.trace import _window

LIBRARY = "libmillrace_trace.so"
SITE = Path(__file__).absolute().parent / "_site"
USAGE = """\
Usage: python -m millrace.trace [OPTION]... SCRIPT [ARGUMENT]...
       python -m millrace.trace [OPTION]... -m MODULE [ARGUMENT]...

Runs a Python program and records its I/O and what PyTorch does.

  -o, --output DIR     directory for the trace (millrace-trace)
      --include GLOB   record only files that match (may be repeated)
      --exclude GLOB   do not record files that match (may be repeated)
      --levels LIST    what to record: posix,stdio,mpiio,hdf5,app (all)
      --steps A:B      record only the steps from A up to, not including, B, counted from 0
      --append         add to the trace that the directory already holds
      --no-compact     leave the recording as it is
      --no-torch       do not mark PyTorch
      --help           show this help

Example: python -m millrace.trace -o t --steps 100:200 train.py && millrace report t
"""


class Failure(Exception):
    """A message for the user, and the exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass
class Options:
    output: Optional[str] = None
    include: list = field(default_factory=list)
    exclude: list = field(default_factory=list)
    levels: Optional[str] = None
    steps: Optional[str] = None
    append: bool = False
    no_compact: bool = False
    no_torch: bool = False
    program: list = field(default_factory=list)  # arguments for Python: SCRIPT..., or -m MODULE...


def main(arguments: list) -> int:
    try:
        if "--help" in arguments[:1] or "-h" in arguments[:1]:
            print(USAGE, end="")
            return 0
        start(parse(arguments))
    except Failure as failure:
        print(f"python -m millrace.trace: {failure}", file=sys.stderr)
        return failure.code
    return 0


def parse(arguments: list) -> Options:
    options = Options()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in ("-m", "-c") or not argument.startswith("-") or argument == "-":
            options.program = [argument, *rest]
            break
        if argument == "--":
            options.program = rest
            break
        if argument in ("--append", "--no-compact", "--no-torch"):
            setattr(options, argument[2:].replace("-", "_"), True)
            continue
        take_option(options, argument, rest)
    if not options.program or options.program in (["-m"], ["-c"]):
        raise Failure("no program was given\n" + USAGE.rstrip(), 2)
    return options


def take_option(options: Options, argument: str, rest: list) -> None:
    name, equals, value = argument.partition("=")
    if name[:2] == "-o" and len(name) > 2:
        name, equals, value = "-o", "=", argument[2:]
    if name not in ("-o", "--output", "--include", "--exclude", "--levels", "--steps"):
        raise Failure(f"unknown option '{argument}'\n{USAGE.rstrip()}", 2)
    if not equals:
        if not rest:
            raise Failure(f"{name} needs a value\n{USAGE.rstrip()}", 2)
        value = rest.pop(0)
    if name in ("-o", "--output"):
        options.output = value
    elif name == "--levels":
        options.levels = value
    elif name == "--steps":
        options.steps = value
    else:
        getattr(options, name[2:]).append(value)


def start(options: Options) -> None:
    """Becomes the program. Returns only by raising Failure."""
    environment = dict(os.environ)
    if options.steps is not None:
        check_steps(options)
        environment[_window.VARIABLE] = options.steps
    if not options.no_torch:
        check_flags()
        before = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join([str(SITE), before] if before else [str(SITE)])
    command = [sys.executable, *interpreter_flags(), *options.program]
    if not _trace._preloaded():
        command = add_tracer(options, environment, command)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(command[0], command, environment)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}", 1) from error


def check_steps(options: Options) -> None:
    try:
        _window.parse(options.steps)
    except ValueError as error:
        raise Failure(str(error), 2) from error
    if options.no_torch:
        raise Failure("--steps needs the steps that PyTorch's loader marks; leave out --no-torch", 2)


def add_tracer(options: Options, environment: dict, command: list) -> list:
    launcher = find_launcher()
    if launcher is not None:
        return [launcher, "trace", *launcher_flags(options), "--", *command]
    library = find_library()
    if library is None:
        raise Failure(f"{LIBRARY} was not found in MILLRACE_TRACE_LIBRARY, next to the package "
                      "or near `millrace` in PATH. Build it (cmake --preset release), and add "
                      "build/release/bin to PATH", 1)
    environment["MILLRACE_TRACE_DIR"] = str(make_directory(options, environment))
    if options.levels is not None:
        environment["MILLRACE_TRACE_LEVELS"] = options.levels
    for variable, globs in (("INCLUDE", options.include), ("EXCLUDE", options.exclude)):
        if globs:
            environment["MILLRACE_TRACE_" + variable] = ":".join(
                glob.replace(":", "\\:") for glob in globs)
    before = environment.get("LD_PRELOAD", "")
    environment["LD_PRELOAD"] = f"{library}:{before}" if before else str(library)
    return command


def launcher_flags(options: Options) -> list:
    flags = ["-o", options.output] if options.output is not None else []
    flags += [word for glob in options.include for word in ("--include", glob)]
    flags += [word for glob in options.exclude for word in ("--exclude", glob)]
    flags += ["--levels", options.levels] if options.levels is not None else []
    flags += ["--append"] if options.append else []
    flags += ["--no-compact"] if options.no_compact else []
    return flags


def make_directory(options: Options, environment: dict) -> Path:
    """Makes the directory of the trace. Like the launcher, it refuses to mix two runs."""
    directory = Path(options.output or environment.get("MILLRACE_TRACE_DIR") or "millrace-trace")
    try:
        for missing in [*reversed(directory.parents), directory]:
            missing.mkdir(mode=0o700, exist_ok=True)  # parents=True would ignore the mode
        held = [entry.name for entry in directory.iterdir()
                if entry.is_dir() or entry.suffix == ".mrt"]
    except OSError as error:
        raise Failure(f"cannot make the directory {directory}: {error.strerror}", 1) from error
    is_rank = _trace._place_variables(environment)[0] is not None
    if held and not options.append and not is_rank:
        raise Failure(f"{directory} already holds a trace ({held[0]}); give another directory with "
                      "-o, or --append", 1)
    return directory.resolve()


def find_library() -> Optional[Path]:
    """In MILLRACE_TRACE_LIBRARY, next to the package, or in ../lib of the launcher in PATH."""
    chosen = os.environ.get("MILLRACE_TRACE_LIBRARY")
    if chosen:
        if not Path(chosen).is_file():
            raise Failure(f"MILLRACE_TRACE_LIBRARY is {chosen}, but there is no such file", 1)
        return Path(chosen).resolve()
    places = [Path(PROGRAM).parents[1] / "lib"]
    launcher = shutil.which("millrace")
    if launcher is not None:
        prefix = Path(launcher).resolve().parents[1]
        places += [prefix / "lib", prefix / "lib" / "millrace"]
    for place in places:
        if (place / LIBRARY).is_file():
            return place / LIBRARY
    return None


def find_launcher() -> Optional[str]:
    """The program of the package, else `millrace` in PATH. None if the library was chosen by hand."""
    if os.environ.get("MILLRACE_TRACE_LIBRARY"):
        return None
    return PROGRAM if os.path.isfile(PROGRAM) else shutil.which("millrace")


def check_flags() -> None:
    """The import hook needs PYTHONPATH and the module site."""
    flags = sys.flags
    if flags.ignore_environment or flags.isolated or flags.no_site:
        raise Failure("PyTorch cannot be marked because Python runs with -E, -I or -S. Remove the "
                      "flag, or give --no-torch", 2)


def interpreter_flags() -> list:
    """The flags of Python itself: what precedes `-m millrace.trace` in this call."""
    words = sys.orig_argv[1:]
    for index, word in enumerate(words):
        # -m may be joined with other flags (-um) and with the module's name.
        if word == "millrace.trace" and index > 0 and words[index - 1].endswith("m"):
            joined = words[index - 1][1:-1]
            return words[:index - 1] + (["-" + joined] if joined else [])
        if word.startswith("-") and word.endswith("mmillrace.trace"):
            joined = word[1:-len("mmillrace.trace")]
            return words[:index] + (["-" + joined] if joined else [])
    return []
