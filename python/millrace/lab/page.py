"""The curves as SVG, and a page with curves and table that needs no other file."""

import html as markup
from typing import Optional

from millrace.lab import results

_COLOURS = ("#c2410c", "#2563eb", "#15803d", "#7c3aed", "#a16207", "#0e7490", "#be185d", "#475569")
_WIDTH, _HEIGHT = 380, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 30, 38
_STYLE = """
.lab text { font: 12px system-ui, sans-serif; fill: #1f2937 } .lab .title { font-weight: 600; font-size: 13px }
.lab .grid { stroke: #d1d5db; stroke-width: 1 } .lab .line { fill: none; stroke-width: 2 } .lab .band { opacity: 0.18 }
@media (prefers-color-scheme: dark) { .lab text { fill: #e5e7eb } .lab .grid { stroke: #374151 } }
"""
_PAGE_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2937; background: #fff; max-width: 1240px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } .scroll { overflow-x: auto }
td { white-space: nowrap } th, td { padding: 0.2em 0.7em; text-align: right; border-bottom: 1px solid #e5e7eb } th { font-weight: 600 }
.loss { color: #b91c1c } svg { max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) { body { color: #e5e7eb; background: #111827 } th, td { border-color: #374151 }
 .loss { color: #fca5a5 } }
"""


def curves(report: dict) -> str:
    """A panel for each number of workers: accuracy by epoch, a line for each fraction. Then accuracy by workers."""
    groups = results.groups(report["conditions"])
    fractions = sorted({each["fraction"] for each in report["conditions"]})
    panels = [_by_epoch(key, group, fractions) for key, group in groups.items()]
    for kind in dict.fromkeys(key[0] for key in groups):
        members = {key[1]: group for key, group in groups.items() if key[0] == kind}
        if len(members) > 1:
            panels.append(_by_workers(kind, members, fractions))
    columns = min(3, max(len(panels), 1))
    height = -(-len(panels) // columns) * _HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" class="lab" viewBox="0 0 {columns * _WIDTH} {max(height, 1) + 24}" '
             f'width="{columns * _WIDTH}" height="{max(height, 1) + 24}" role="img" aria-label="Test accuracy">',
             f"<style>{_STYLE}</style>"]
    for number, panel in enumerate(panels):
        x, y = number % columns * _WIDTH, number // columns * _HEIGHT
        parts.append(f'<g transform="translate({x},{y})">{panel}</g>')
    parts.append(_legend(fractions, height + 14))
    return "".join([*parts, "</svg>\n"])


def _legend(fractions: list, y: int) -> str:
    parts = []
    for number, fraction in enumerate(fractions):
        x = _LEFT + number * 92
        name = {0.0: "Q = 0 (local)", 1.0: "Q = 1 (global)"}.get(fraction, f"Q = {fraction:g}")
        parts.append(f'<line x1="{x}" x2="{x + 14}" y1="{y - 4}" y2="{y - 4}" stroke="{_colour(number)}" stroke-width="3"/>'
                     f'<text x="{x + 18}" y="{y}" style="font-size:10px">{name}</text>')
    return "".join(parts)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


class _Axes:
    """From values to the pixels of a panel."""

    def __init__(self, title: str, x_title: str, ticks: list, low: float) -> None:
        self.count = len(ticks)
        self.low = low
        self.parts = [f'<text class="title" x="{_LEFT}" y="18">{markup.escape(title)}</text>']
        for share in range(5):
            value = round(low + (1 - low) * share / 4, 4)
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                              f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * value:g} %</text>')
        every = -(-self.count // 10)
        for index, tick in enumerate(ticks):
            if index % every == 0 or index == self.count - 1:
                self.parts.append(f'<text x="{self.x(index):.1f}" y="{_HEIGHT - _BOTTOM + 16}" '
                                  f'text-anchor="middle">{tick}</text>')
        self.parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
                          f"{x_title}</text>")

    def x(self, index: int) -> float:
        return _LEFT + 8 + (_WIDTH - _LEFT - _RIGHT - 16) * (index / max(self.count - 1, 1))

    def y(self, value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - self.low) / (1 - self.low))

    def line(self, points: list, colour: str, name: str) -> None:
        """Points are (index, value, half of the interval or None)."""
        if any(half for _, _, half in points):
            edge = [(i, min(v + (h or 0), 1.0)) for i, v, h in points]
            edge += [(i, max(v - (h or 0), self.low)) for i, v, h in reversed(points)]
            self.parts.append(f'<polygon class="band" fill="{colour}" points="{self._pixels(edge)}"/>')
        self.parts.append(f'<polyline class="line" stroke="{colour}" points="'
                          f'{self._pixels([(i, v) for i, v, _ in points])}"><title>{name}</title></polyline>')
        for index, value, half in points:
            note = f"{name}: {100 * value:.1f} %" + ("" if half is None else f" ± {100 * half:.1f}")
            self.parts.append(f'<circle cx="{self.x(index):.1f}" cy="{self.y(value):.1f}" r="3" fill="{colour}">'
                              f"<title>{note}</title></circle>")

    def _pixels(self, points: list) -> str:
        return " ".join(f"{self.x(i):.1f},{self.y(v):.1f}" for i, v in points)


def _floor(values: list) -> float:
    """The lowest accuracy of an axis: 0, or near the values if they are all high."""
    lowest = min(values)
    return 0.0 if lowest < 0.5 else 0.1 * int(10 * lowest - 0.5)


def _by_epoch(key: tuple, group: list, fractions: list) -> str:
    values = [value for each in group for value in each["accuracy_by_epoch"]]
    epochs = len(group[0]["accuracy_by_epoch"])
    axes = _Axes(f"{key[1]} workers, {results.KINDS[key[0]]} shards", "epoch", list(range(1, epochs + 1)), _floor(values))
    for each in group:
        points = [(index, value, half) for index, (value, half) in
                  enumerate(zip(each["accuracy_by_epoch"], each["accuracy_interval_by_epoch"]))]
        axes.line(points, _colour(fractions.index(each["fraction"])), f"Q = {each['fraction']:g}")
    return "".join(axes.parts)


def _by_workers(kind: str, groups: dict, fractions: list) -> str:
    values = [each["accuracy"] for group in groups.values() for each in group]
    axes = _Axes(f"After the last epoch, {results.KINDS[kind]} shards", "workers", list(groups), _floor(values))
    for number, fraction in enumerate(fractions):
        points = [(index, each["accuracy"], each["accuracy_interval"]) for index, group in enumerate(groups.values())
                  for each in group if each["fraction"] == fraction]
        if points:
            axes.line(points, _colour(number), f"Q = {fraction:g}")
    return "".join(axes.parts)


def html(report: dict, title: Optional[str] = None) -> str:
    name = markup.escape(title or f"Shuffling and accuracy: {report['model']} on {report['dataset']['name']}")
    recipe = report["recipe"]
    facts = (f"{report['dataset']['train']} training samples, {recipe['epochs']} epochs, {len(report['seeds'])} seeds, "
             f"{recipe['optimizer']}, {recipe['precision']}, PyTorch {markup.escape(report['torch'])} on "
             f"{markup.escape(report['device'])}")
    head = "".join(f"<th>{cell}</th>" for cell in ("shards", "workers", "Q", "shuffling", "accuracy", "points lost",
                                                   "class skew, first-last epoch", "samples received per worker and epoch",
                                                   "samples stored at most", "updates", "seconds"))
    body = "".join(f"<tr{' class=loss' if is_loss else ''}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
                   for cells, is_loss in results.rows(report["conditions"]))
    sentences = "".join(f"<li>{markup.escape(each)}</li>" for each in report["findings"])
    advice = "".join(f"<li>{markup.escape(each['sentence'])}</li>" for each in report["advice"])
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width"><title>{name}</title><style>{_PAGE_STYLE}</style></head><body><h1>{name}</h1>'
            f"<p>{facts}</p>{curves(report)}<h2>Measured</h2><ul>{sentences}</ul>"
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
            f"<h2>From the skew of the shards</h2><ul>{advice}</ul></body></html>\n")
