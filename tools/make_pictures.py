#!/usr/bin/env python3
"""Makes the pictures of docs/pictures from a real run: the job of ./quickstart, traced, reported and watched.

A headless Chromium draws the report's page. `millrace top` runs on a real terminal (tmux) while the job runs, and
Chromium also draws what that terminal shows. The output of `report`, `advise` and the other verbs stays in the folder
of the run, for the samples in docs/guide. Needs a release build (./quickstart --build-only), chromium, tmux,
numpy and Pillow (python3-numpy, python3-pil).
"""

import argparse
import base64
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

SOURCE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "browser"))
sys.dont_write_bytecode = True

from chromium import Chromium, find_chromium  # noqa: E402  (found through the path above)

SIZE_BYTES_MAX = 150_000
PAGE_WIDTH = 1100
TOP_COLUMNS, TOP_ROWS = 92, 24
# The styles of src/base/system/terminal.cc, dark on white.
STYLES = {"1": "font-weight: bold", "2": "color: #667", "32": "color: #18702c", "33": "color: #8a5a00",
          "31": "color: #b3201c"}
TERMINAL_PAGE = """<!doctype html><html data-ready><meta charset="utf-8"><style>
body {{ margin: 0; background: #fff }}
pre {{ display: inline-block; margin: 0; padding: 14px 18px; border: 1px solid #ccd; border-radius: 6px;
       color: #112; font: 15px/1.35 "DejaVu Sans Mono", "Liberation Mono", monospace }}
</style><pre id="screen">{}</pre></html>"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=SOURCE / "build" / "release", help="a release build")
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python that runs the job")
    parser.add_argument("--keep", type=Path, help="keep the run in this new folder")
    arguments = parser.parse_args()
    browser = find_chromium()
    if browser is None or shutil.which("tmux") is None:
        print("make_pictures: chromium and tmux are needed (Debian: chromium tmux)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="millrace_pictures_") as scratch:
        job = Job(arguments.keep or Path(scratch) / "example", arguments.build.resolve(), arguments.python)
        job.run()
        job.write_samples()
        screen = job.watch()
        pictures = SOURCE / "docs" / "pictures"
        with Chromium(browser, PAGE_WIDTH, 1000) as chromium:
            pictures_of_page(chromium, job.place / "report.html", pictures)
            terminal = job.place / "top.html"
            terminal.write_text(TERMINAL_PAGE.format(html_of_terminal(screen)), encoding="utf-8")
            picture_of_terminal(chromium, terminal, pictures / "top.png")
    sizes = {path.name: path.stat().st_size for path in sorted(pictures.glob("*.png"))}
    for name, size in sizes.items():
        print(f"docs/pictures/{name}: {size:,} bytes")
    return int(any(size > SIZE_BYTES_MAX for size in sizes.values()))


class Job:
    """The example of ./quickstart in a separate folder, so that no picture shows a path of this machine."""

    def __init__(self, place: Path, build: Path, python: str):
        self.place, self.python = place, python
        self.millrace = build / "bin" / "millrace"
        self.environment = {**os.environ, "PYTHONPATH": str(build / "python"), "COLUMNS": "80", "LANG": "C.UTF-8"}
        place.mkdir(parents=True)
        for name in ("train.py", "make_dataset.py"):
            shutil.copy(SOURCE / "python" / "examples" / name, place)

    def call(self, *command: str | Path, check: bool = True) -> str:
        return subprocess.run(list(map(str, command)), cwd=self.place, env=self.environment, check=check,
                              stdout=subprocess.PIPE, text=True).stdout

    def trace(self, directory: str, *more: str) -> list[str]:
        return [str(self.millrace), "trace", "-o", directory, "--", self.python, "train.py", "data",
                "--checkpoint", "network.npz", *more]

    def run(self) -> None:
        self.call(self.python, "make_dataset.py", "data")
        self.call(*self.trace("t"))
        self.call(*self.trace("fed", "--millrace"))
        self.call(self.millrace, "report", "t", "--html", "report.html")

    def write_samples(self) -> None:
        """Writes the output of each verb for the run."""
        samples = {"report": ["report", "t"], "advise": ["advise", "t"], "info": ["info", "t"],
                   "compare": ["compare", "fed", "t"], "doctor": ["doctor", "."],
                   "query": ["query", "t", "select name, count(*), sum(duration) / 1000000 as ms from events "
                             "where layer = 'posix' group by name order by ms desc limit 5"]}
        for name, command in samples.items():
            # The exit code of compare is 1 if something became slower.
            (self.place / f"{name}.txt").write_text(self.call(self.millrace, *command, check=name != "compare"))

    def watch(self) -> str:
        """The screen of `millrace top` during the job, with escape sequences."""
        tmux = ["tmux", "-L", f"millrace_pictures_{os.getpid()}", "-f", "/dev/null"]
        environment = {name: value for name, value in self.environment.items() if name not in ("COLUMNS", "TMUX")}
        # A smaller network, so that more happens per second.
        training = subprocess.Popen(self.trace("running", "--epochs", "100000", "--hidden", "8"), cwd=self.place,
                                    env=environment, stdout=subprocess.DEVNULL)
        try:
            subprocess.run([*tmux, "new-session", "-d", "-x", str(TOP_COLUMNS), "-y", str(TOP_ROWS),
                            f"{self.millrace} top running"], cwd=self.place, env=environment, check=True)
            return self.wait_for_screen(tmux)
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
            training.terminate()
            training.wait()

    def wait_for_screen(self, tmux: list[str]) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(1)
            screen = subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, stdout=subprocess.PIPE, text=True).stdout
            epoch = re.search(r"^ *\d+ +(\d+) +\d+ .*train\.py", without_styles(screen), re.MULTILINE)
            if epoch and int(epoch[1]) >= 3:
                return screen
        raise TimeoutError(f"top did not show a third epoch within 120 s; it showed:\n{screen}")


def without_styles(screen: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", screen)


def html_of_terminal(screen: str) -> str:
    """The capture of tmux as HTML. Only a few styles are used, one at a time."""
    out = []
    for piece in re.split(r"(\x1b\[[0-9;]*m)", screen.rstrip()):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", piece)
        if code is None:
            out.append(html.escape(piece))
            continue
        styles = [STYLES[part] for part in code[1].split(";") if part in STYLES]
        out.append("</span><span" + (f' style="{"; ".join(styles)}"' if styles else "") + ">")
    return "<span>" + "".join(out) + "</span>"


def save(page, path: Path, clip: dict) -> None:
    """Saves a screenshot with 256 colours: enough for text and flat areas, at less than half the size."""
    shot = page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={**clip, "scale": 1})
    with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as image:
        image.convert("RGB").quantize(256).save(path, optimize=True)


def pictures_of_page(chromium: Chromium, report: Path, folder: Path) -> None:
    page = chromium.open(report)
    page.call("Emulation.setDeviceMetricsOverride", width=PAGE_WIDTH, height=1000, deviceScaleFactor=1, mobile=False)
    # The header stays visible when scrolling, and would cover a part of the picture.
    page.evaluate("document.querySelector('header').style.position = 'static'")
    margin = 9
    first = page_box(page, "#finding-0")
    save(page, folder / "report-page.png",
         {"x": 0, "y": 0, "width": PAGE_WIDTH, "height": first["y"] + first["height"] + margin})
    time_split, over_time = page_box(page, "#time"), page_box(page, "#over-time")
    save(page, folder / "report-page-time.png",
         {"x": 0, "y": time_split["y"] - margin, "width": PAGE_WIDTH,
          "height": over_time["y"] + over_time["height"] - time_split["y"] + 2 * margin})


def page_box(page, selector: str) -> dict:
    """The position of an element on the whole page. Scrolls to it, so that it is drawn."""
    box = page.box(selector)
    page.settle()
    return {**box, "y": box["y"] + page.evaluate("window.scrollY")}


def picture_of_terminal(chromium: Chromium, terminal: Path, path: Path) -> None:
    page = chromium.open(terminal)
    save(page, path, page.box("#screen"))


if __name__ == "__main__":
    sys.exit(main())
