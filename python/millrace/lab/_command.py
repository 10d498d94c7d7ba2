"""The command: parses options, starts ranks, trains under every condition and writes the results."""

import argparse
import hashlib
import importlib
import inspect
import json
import math
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.lab import page, ranks, results
from millrace.lab._errors import LabError

DESCRIPTION = """\
Trains one model under global, local and partial shuffling, and compares the accuracy.

  python -m millrace.lab --dataset fashion-mnist --workers 16,64,256 --fractions 0,0.1,0.3,1

Each of M workers holds a shard of the samples, and exchanges a fraction Q of it after every epoch: Q = 0 is local
shuffling, Q = 1 global. The workers are virtual, in this process, unless --ranks is given."""
EPILOG = """\
examples:
  python -m millrace.lab --dataset synthetic --workers 8 --skew-only          which Q is likely to be enough; seconds
  python -m millrace.lab --model my.net:make --data my.data:load --workers 64
  python -m millrace.lab --dataset fashion-mnist --workers 4 --ranks gloo --processes 4
  torchrun --nproc-per-node 8 -m millrace.lab --dataset cifar-10 --folder cifar-10 --workers 8,64 --ranks nccl

Writes table.txt, results.json, curves.svg and page.html to the folder --output. See docs/guide/lab.md."""


FUNCTION = re.compile(r"[^.:][^:]*:[^:]+")  # MODULE:FUNCTION
SEEDS = 1 << 32


class UsageError(Exception):
    """Wrong arguments: the command exits with 2."""


def main(arguments: list) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _main(options, arguments)
    except KeyboardInterrupt:
        if ranks.RENDEZVOUS in os.environ:
            return 1  # the process that started the ranks says it
        return _complain(f"interrupted; the results of finished conditions are in {options.output}", 1)


def _main(options: argparse.Namespace, arguments: list) -> int:
    try:
        import numpy  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        return _complain(f"the lab needs PyTorch and NumPy: {error}", 1)
    try:
        _check(options)
        if options.ranks and "RANK" not in os.environ:
            return ranks.start(arguments, _process_count(options))
        return _run(options)
    except UsageError as error:
        return _complain(str(error), 2)
    except (LabError, ImportError) as error:
        return _complain(str(error), 1)


def _complain(message: str, code: int) -> int:
    if os.environ.get("RANK", "0") == "0":
        print(f"millrace.lab: {message}", file=sys.stderr)
    return code


# long-function: it is a table of options
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m millrace.lab", description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    what = parser.add_argument_group("what to train")
    what.add_argument("--dataset", choices=("fashion-mnist", "cifar-10", "synthetic"), default=None)
    what.add_argument("--folder", help="of the dataset's files")
    what.add_argument("--data", metavar="MODULE:FUNCTION",
                      help="your dataset: returns a millrace.lab.Dataset, or tensors of training samples, their labels, "
                           "test samples, their labels")
    what.add_argument("--model", default="mlp", metavar="NAME",
                      help="mlp, mlp-layer-norm, convnet, resnet9, or MODULE:FUNCTION, which returns a torch.nn.Module "
                           "(default mlp)")
    what.add_argument("--samples", type=int, metavar="N", help="use only N training samples")
    shuffling = parser.add_argument_group("workers and shuffling")
    shuffling.add_argument("--workers", default="16,64", metavar="M,...", help="numbers of workers (default 16,64)")
    shuffling.add_argument("--fractions", default="0,0.1,0.3,1", metavar="Q,...",
                           help="fractions exchanged after every epoch (default 0,0.1,0.3,1)")
    shuffling.add_argument("--shards", default="sorted", metavar="KIND,...",
                           help="sorted (by class), random, or both (default sorted)")
    shuffling.add_argument("--skew-only", action="store_true",
                           help="measure the skew of the shards and say which Q is likely to be enough, without training")
    recipe = parser.add_argument_group("how to train")
    recipe.add_argument("--epochs", type=int, default=8)
    recipe.add_argument("--batch", type=int, help="of each worker (default 8)")
    recipe.add_argument("--global-batch", type=int, help="of all workers together, instead of --batch")
    recipe.add_argument("--lr", type=float, default=0.1, help="learning rate for 256 samples a step (default 0.1)")
    recipe.add_argument("--scaling", choices=("sqrt", "linear", "none"), default="sqrt",
                        help="how the rate grows with the samples of a step (default sqrt)")
    recipe.add_argument("--optimizer", choices=("sgd", "lars"), default="sgd")
    recipe.add_argument("--momentum", type=float, default=0.9)
    recipe.add_argument("--weight-decay", type=float, default=5e-4)
    recipe.add_argument("--warmup", type=float, default=0.1, metavar="SHARE", help="of the run (default 0.1)")
    recipe.add_argument("--precision", choices=("float32", "float64", "bf16", "fp16"), default="float32")
    recipe.add_argument("--statistics", choices=("mean", "first"), default="mean",
                        help="running statistics of batch normalisation for the test: the mean over the workers, or "
                             "those of the first worker, as DistributedDataParallel saves them (default mean)")
    recipe.add_argument("--seed", type=int, default=0)
    recipe.add_argument("--repeats", type=int, default=3, help="seeds per condition (default 3)")
    machine = parser.add_argument_group("where")
    machine.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 or auto (default)")
    machine.add_argument("--threads", type=int, help="of PyTorch on the CPU")
    machine.add_argument("--ranks", choices=("gloo", "nccl"), help="real ranks; started here, or by torchrun")
    machine.add_argument("--processes", type=int, metavar="N", help="ranks to start (default: the least --workers, at "
                                                                   "most 8)")
    output = parser.add_argument_group("output")
    output.add_argument("--output", type=Path, default=Path("millrace-lab"), metavar="FOLDER",
                        help="default millrace-lab")
    output.add_argument("--json", action="store_true", help="print JSON instead of the table")
    output.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _check(options: argparse.Namespace) -> None:
    """Parses lists and raises for wrong options."""
    options.workers = _numbers("--workers", options.workers, int)
    options.fractions = _numbers("--fractions", options.fractions, float)
    options.shards = list(dict.fromkeys(options.shards.split(",")))
    for kind in options.shards:
        if kind not in results.KINDS:
            raise UsageError(f"--shards: '{kind}' is neither sorted nor random")
    for fraction in options.fractions:
        if not 0 <= fraction <= 1:  # NaN too
            raise UsageError(f"--fractions: {fraction:g} is not between 0 (local shuffling) and 1 (global)")
    if min(options.workers) < 1:
        raise UsageError(f"--workers: {min(options.workers)} workers cannot train: give 1 or more")
    for name in ("epochs", "batch", "global_batch", "repeats", "samples", "threads", "processes"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')}: {value} is not positive")
    for name in ("lr", "momentum", "weight_decay", "warmup"):
        value = getattr(options, name)
        if not math.isfinite(value) or value < 0:
            raise UsageError(f"--{name.replace('_', '-')}: {value:g} is not a number from 0")
    if options.warmup > 1:
        raise UsageError(f"--warmup: {options.warmup:g} is more than the whole run: give a share, such as 0.1")
    if not 0 <= options.seed < SEEDS:
        raise UsageError(f"--seed: {options.seed} is not between 0 and {SEEDS - 1}")
    if options.processes and not options.ranks:
        raise UsageError("--processes is for real ranks: give --ranks gloo or nccl, too")
    if options.batch and options.global_batch:
        raise UsageError("give either --batch or --global-batch")
    if options.data and options.dataset:
        raise UsageError("give either --dataset or --data")
    for name in ("data", "model"):
        value = getattr(options, name)
        if value and not FUNCTION.fullmatch(value) and (name == "data" or value not in _model_names()):
            raise UsageError(f"--{name}: '{value}' is not MODULE:FUNCTION"
                             + ("" if name == "data" else f", nor one of {', '.join(_model_names())}"))


def _model_names() -> list:
    from millrace.lab.models import MODELS
    return list(MODELS)


def _numbers(option: str, text: str, kind: type) -> list:
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a list of numbers, such as "
                         f"{'16,64' if kind is int else '0,0.1,1'}") from None
    return sorted(set(numbers))


def _process_count(options: argparse.Namespace) -> int:
    return options.processes or min(8, options.workers[0])


def _imported(option: str, name: str) -> Callable:
    module, _, function = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise LabError(f"--{option} {name}: cannot import {module}: {error}") from None
    if not callable(getattr(found, function, None)):
        raise LabError(f"--{option} {name}: {module} has no function '{function}'")
    return getattr(found, function)


def _dataset(options: argparse.Namespace) -> Any:
    from millrace.lab import datasets
    if not options.data:
        return datasets.load(options.dataset or "synthetic", options.folder).first(options.samples)
    given = _imported("data", options.data)()
    if not isinstance(given, datasets.Dataset):
        import torch
        try:
            given = datasets.Dataset(options.data, *map(torch.as_tensor, given))
        except (TypeError, ValueError, RuntimeError):
            raise LabError(f"--data {options.data} returned neither a millrace.lab.Dataset nor four tensors "
                                    "(training samples, labels, test samples, labels)") from None
    return given.first(options.samples)


def _model(options: argparse.Namespace) -> Callable:
    import torch
    from millrace.lab.models import MODELS
    if options.model in MODELS:
        return MODELS[options.model]
    function = _imported("model", options.model)
    needed = [each for each in inspect.signature(function).parameters.values()
              if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]

    def make(dataset: Any) -> torch.nn.Module:
        made = function(dataset) if needed else function()
        if not isinstance(made, torch.nn.Module):
            raise LabError(f"--model {options.model} returned {type(made).__name__}, but must return a torch.nn.Module")
        return made

    return make


def _device(options: argparse.Namespace) -> Any:
    import torch
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() and options.ranks != "gloo" else "cpu"
    if name == "cuda" and options.ranks:
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UsageError(f"--device: '{name}' is neither cpu nor cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise LabError("--device: PyTorch finds no CUDA device here; give --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise LabError(f"there is no {name}: this machine has {torch.cuda.device_count()} CUDA devices; give another "
                       "--device, or fewer --processes")
    if device.type != "cuda" and options.ranks == "nccl":
        raise LabError("--ranks nccl needs a GPU for each rank; give --ranks gloo")
    if device.type == "cpu" and options.precision == "fp16":
        raise LabError("--precision fp16 needs a GPU; give --precision bf16 or float32")
    if device.type == "cuda":
        torch.cuda.set_device(device if device.index is not None else 0)
    return device


def _run(options: argparse.Namespace) -> int:
    import torch
    from millrace.lab import experiment
    if options.threads:
        torch.set_num_threads(options.threads)
    device = _device(options)
    with ranks.joined(options.ranks):
        plan = experiment.Plan(dataset=_dataset(options), make_model=_model(options), model_name=options.model,
                               device=device, options=options)
        try:
            plan.check()
        except LabError as error:
            raise UsageError(str(error)) from None
        if plan.processes.rank == 0 and not options.skew_only:
            _make_folder(options.output)
        progress = Progress(not options.quiet and sys.stderr.isatty() and plan.processes.rank == 0)
        report = plan.run(progress, lambda partial: _save(options, partial, plan.processes.rank))
        progress.clear()
        if plan.processes.rank == 0:
            colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            text = json.dumps(report, indent=1) if options.json else results.text(report, colour)
            if not options.json and not options.skew_only:
                text += f"\n\nwrote {options.output}/page.html, curves.svg, results.json, table.txt"
            try:
                print(text, flush=True)
            except OSError as error:
                sys.stdout = None  # at its end, Python would try again
                raise LabError(f"cannot write to standard output: {error.strerror}") from None
    return 0


# The first one has the digests of the others, which tell whose they are.
_RESULTS = ("results.json", "table.txt", "curves.svg", "page.html")


def _make_folder(folder: Path) -> None:
    """Before training, which may take hours: can the results be written, and are those that they replace ours?"""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _write_error(error, folder) from None
    written = _written_files(folder / _RESULTS[0])
    for name in _RESULTS:
        path = folder / name
        if os.path.lexists(path) and (written is None or name != _RESULTS[0] and written.get(name) != _digest(path)):
            raise LabError(f"{path} exists, and millrace.lab did not write it, or it was changed since; remove it, or choose "
                           "another folder with --output")


def _written_files(report_path: Path) -> dict | None:
    """What an earlier run has written beside its report, with a digest each. None: there is no report."""
    try:
        report = json.loads(report_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(report, dict) or report.get("format") != "millrace-lab":
        return None
    files = report.get("files")
    return files if isinstance(files, dict) else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _write_error(error: OSError, path: Path) -> Exception:
    # A full disk has no name in the error.
    return LabError(f"cannot write {path}: {error.strerror}; choose another folder with --output")


def _save(options: argparse.Namespace, report: dict, rank: int) -> None:
    if rank != 0:
        return
    texts = (results.text(report, False) + "\n", page.curves(report), page.html(report))
    files = dict(zip(_RESULTS[1:], texts))
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    # First: without it, nothing tells whose the others are.
    _replace(options.output / _RESULTS[0], json.dumps({**report, "files": digests}, indent=1) + "\n")
    for name, text in files.items():
        _replace(options.output / name, text)


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        file = open(unfinished, "x", encoding="utf-8")  # a name that nobody has
    except OSError as error:
        raise _write_error(error, path) from None
    try:
        with file:
            file.write(text)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise _write_error(error, path) from None


class Progress:
    """One line on a terminal, rewritten after every epoch."""

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._begin = time.monotonic()

    def show(self, done: float, text: str) -> None:
        if self._is_shown:
            spent = time.monotonic() - self._begin
            left = "" if done <= 0 else f", {spent / done * (1 - done):.0f} s left"
            print(f"\r\033[K{100 * done:3.0f} %  {text}{left}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


