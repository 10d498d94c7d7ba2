"""What several runs of a condition add up to, and the table."""

import math
from typing import Any, Optional

KINDS = {"sorted": "class-sorted", "random": "random"}
# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
      2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
# Points of accuracy that nobody would call a loss.
_EQUAL_POINTS = 0.5


def finite(values: list) -> list:
    """JSON has no NaN: a loss that is no number is null."""
    return [value if math.isfinite(value) else None for value in values]


def mean(values: list) -> float:
    return sum(values) / len(values)


def half_interval(values: list) -> Optional[float]:
    """Half of the 95 % confidence interval of the mean. None for a single value."""
    count = len(values)
    if count < 2:
        return None
    centre = mean(values)
    deviation = math.sqrt(sum((value - centre) ** 2 for value in values) / (count - 1))
    student = _T[count - 2] if count - 1 <= len(_T) else 1.96
    return student * deviation / math.sqrt(count)


def condition(runs: list, *, sample_bytes: int, **names: Any) -> dict:
    by_epoch = list(zip(*(run["accuracy"] for run in runs)))
    workers = names["workers"]
    exchanged = mean([run["exchanged_per_epoch"] for run in runs])
    stored = max(run["stored_max"] for run in runs)
    return {**names,
            "accuracy": mean([run["accuracy"][-1] for run in runs]),
            "accuracy_interval": half_interval([run["accuracy"][-1] for run in runs]),
            "accuracy_by_epoch": [mean(list(values)) for values in by_epoch],
            "accuracy_interval_by_epoch": [half_interval(list(values)) for values in by_epoch],
            "skew_by_epoch": [mean(list(values)) for values in zip(*(run["skew"] for run in runs))],
            "exchanged_samples_per_worker_and_epoch": exchanged / workers,
            "exchanged_bytes_per_worker_and_epoch": exchanged / workers * sample_bytes,
            "stored_samples_per_worker": stored,
            "stored_bytes_per_worker": stored * sample_bytes,
            "seconds": mean([run["seconds"] for run in runs]),
            "runs": runs}


def groups(conditions: list) -> dict:
    """Conditions by (shards, workers), each from the smallest fraction to the largest."""
    found: dict = {}
    for each in conditions:
        found.setdefault((each["shards"], each["workers"]), []).append(each)
    return {key: sorted(each, key=lambda one: one["fraction"]) for key, each in found.items()}


def findings(conditions: list) -> list:
    """One sentence for each number of workers: what was lost, and the least fraction that lost nothing."""
    sentences = []
    for (kind, workers), group in groups(conditions).items():
        sentences += [_diverged(each, KINDS[kind]) for each in group if _bad_runs(each)]
        if len(group) < 2 or any(_bad_runs(each) for each in group):
            continue
        best = group[-1]
        margin = max(_EQUAL_POINTS / 100, best["accuracy_interval"] or 0)
        enough = next(each for each in group if each["accuracy"] >= best["accuracy"] - margin)
        lost = 100 * (best["accuracy"] - group[0]["accuracy"])
        start = f"{workers} workers, {KINDS[kind]} shards: "
        if enough is group[0]:
            sentences.append(f"{start}Q = {enough['fraction']:g} lost nothing measurable ({percent(enough)} against "
                             f"{percent(best)} with Q = {best['fraction']:g}).")
        else:
            sentences.append(f"{start}Q = {group[0]['fraction']:g} lost {lost:.1f} points; Q = {enough['fraction']:g} "
                             f"was enough ({percent(enough)} against {percent(best)} with Q = {best['fraction']:g}).")
    return sentences


def _bad_runs(each: dict) -> int:
    """The number of runs whose loss was NaN or infinite in an epoch."""
    return sum(None in run["loss"] for run in each.get("runs", ()))


def _diverged(each: dict, shards: str) -> str:
    return (f"{each['workers']} workers, {shards} shards, Q = {each['fraction']:g}: the loss became NaN or infinite in "
            f"{_bad_runs(each)} of {len(each['runs'])} runs, so its accuracy says nothing: give a smaller --lr.")


def percent(each: dict) -> str:
    text = f"{100 * each['accuracy']:.1f}"
    if each["accuracy_interval"] is not None:
        text += f" ± {100 * each['accuracy_interval']:.1f}"
    return text + " %"


_COLUMNS = (("shards", 8), ("M", 6), ("Q", 6), ("shuffling", 9), ("accuracy", 14), ("lost", 6), ("skew", 11),
            ("sent/worker", 11), ("stored", 7), ("updates", 7), ("s", 7))


def rows(conditions: list) -> list:
    """The cells of the table: text, and whether the condition lost more than a point."""
    found = []
    for group in groups(conditions).values():
        for each in group:
            lost = 100 * (group[-1]["accuracy"] - each["accuracy"])
            skews = each["skew_by_epoch"]
            found.append(([each["shards"], str(each["workers"]), f"{each['fraction']:g}", each["shuffle"], percent(each),
                           "" if each is group[-1] else f"{lost:.1f}", f"{skews[0]:.2f}-{skews[-1]:.2f}",
                           f"{each['exchanged_samples_per_worker_and_epoch']:.0f}",
                           str(each["stored_samples_per_worker"]), str(each["updates"]), f"{each['seconds']:.1f}"],
                          lost > 1))
    return found


def text(report: dict, colour: bool) -> str:
    dataset, recipe = report["dataset"], report["recipe"]
    where = f"{report['ranks']} ranks ({report['backend']})" if report["ranks"] else "virtual workers"
    lines = [f"{report['model']} on {dataset['name']}: {dataset['train']} samples, {recipe['epochs']} epochs, "
             f"{len(report['seeds'])} seeds, {recipe['optimizer']}, {recipe['precision']}, {where} on {report['device']}",
             ""]
    if report["conditions"]:
        lines.append("  ".join(name.ljust(width) if name in ("shards", "shuffling") else name.rjust(width)
                               for name, width in _COLUMNS))
        for cells, is_loss in rows(report["conditions"]):
            line = "  ".join(cell.ljust(width) if name in ("shards", "shuffling") else cell.rjust(width)
                             for cell, (name, width) in zip(cells, _COLUMNS))
            lines.append(f"\033[31m{line}\033[0m" if colour and is_loss else line)
        lines += ["", "accuracy: of the test, mean and 95 % confidence interval; lost: points below the largest Q",
                  "skew: distance of the workers' classes from all classes, first and last epoch",
                  "sent/worker, stored: samples per worker and epoch that it receives; the most that it holds", ""]
    lines += ["From the skew of the shards:", *(f"  {each['sentence']}" for each in report["advice"])]
    if report["findings"]:
        lines += ["Measured:", *(f"  {sentence}" for sentence in report["findings"])]
    return "\n".join(lines)
