"""What the tests of this folder share: pages that are made and opened in a real browser.

ctest runs them without arguments, with the program that makes pages (MAKE_PAGE) and millrace (MILLRACE) in the
environment.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from chromium import Chromium, Page, find_chromium

LEFT, RIGHT = 110, 14  # the margins of the views over time (view.ts)

browser: Chromium  # of main()
folder: Path


def make_page(name: str, profile: dict, findings: dict, detail: dict) -> Path:
    paths = []
    for part, value in (("profile", profile), ("findings", findings), ("detail", detail)):
        paths.append(folder / f"{name}.{part}.json")
        paths[-1].write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")
    page = folder / f"{name}.html"
    subprocess.run([os.environ["MAKE_PAGE"], *paths, page], check=True)
    return page


def lookup(profile: dict, path: str):
    """The value at a path of the JSON, for example "job.events" or "functions.3.count"."""
    value = profile
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


class PageTest(unittest.TestCase):
    """One page per class, opened again for each test. A test fails if the page logs an error or makes a request."""

    expects_errors = False

    @classmethod
    def make(cls) -> Path:
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        if cls is PageTest:
            raise unittest.SkipTest("only the classes below it have pages")
        cls.path = cls.make()

    def setUp(self):
        self.page: Page = browser.open(self.path)
        self.page.settle()
        self.addCleanup(self.check_and_close)

    def check_and_close(self):
        self.page.settle()
        errors, requests = self.page.errors, self.page.requests
        self.page.close()
        if not self.expects_errors:
            self.assertEqual(errors, [])
        self.assertEqual({url for url in requests if not url.startswith("data:")}, {self.path.resolve().as_uri()})

    def text(self, selector: str) -> str:
        return self.page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector: str) -> list[str]:
        return self.page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")

    def count(self, selector: str) -> int:
        return self.page.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def visible_range(self) -> tuple[float, float]:
        shown = self.page.evaluate("({...document.querySelector('#range').dataset})")
        return float(shown["begin"]), float(shown["end"])

    def plot(self, selector: str = "#events canvas") -> dict:
        """The plot area of a view."""
        box = self.page.box(selector)
        return box | {"x": box["x"] + LEFT, "width": box["width"] - LEFT - RIGHT}

    def assert_figures_are_those_of(self, profile: dict):
        figures = self.page.evaluate("[...document.querySelectorAll('.figure')].map(e => [e.dataset.path, e.dataset.value, e.innerText])")
        self.assertGreater(len(figures), 5)
        for path, value, text in figures:
            self.assertEqual(float(value), float(lookup(profile, path)), path)
            self.assertNotEqual(text, "", path)

    def assert_nothing_is_wider_than_the_window(self):
        width, inner = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(width, inner)


def main(arguments: list[str]) -> None:
    """Runs the tests of the program, in one browser."""
    global browser, folder
    program = find_chromium()
    if program is None:
        sys.exit("there is no Chromium to test the page in; install the package chromium")
    with tempfile.TemporaryDirectory() as name, Chromium(program) as browser:
        folder = Path(name)
        unittest.main(argv=[sys.argv[0], *arguments], verbosity=2)
