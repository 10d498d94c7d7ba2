#!/usr/bin/env python3
"""The report's page in a real browser: it opens from file://, shows the numbers of its JSON, zooms, sorts, filters, links
findings to their evidence, and logs no error.

`page_test.py PAGE.html PROFILE.json` tests an existing page.
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True

import page_case  # noqa: E402
import sample_data  # noqa: E402
from page_case import PageTest, make_page  # noqa: E402

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "report"))

from names import NAMES  # noqa: E402


class AJobsPage(PageTest):
    @classmethod
    def make(cls) -> Path:
        job = sample_data.Job()
        cls.profile, cls.detail = job.profile(), job.detail()
        cls.findings = sample_data.findings(cls.profile)
        cls.wall = cls.profile["job"]["wall_ns"]
        return make_page("job", cls.profile, cls.findings, cls.detail)

    def test_it_shows_the_figures_of_the_json(self):
        self.assert_figures_are_those_of(self.profile)
        summary = self.text("#summary")
        for figure in ("1 min 30 s", "1,234,567", "45 GiB", "34.0 %", "1.37 x", "python3 train.py --epochs 3"):
            self.assertIn(figure, summary)
        self.assert_nothing_is_wider_than_the_window()

    def test_its_tiles_are_the_figures_of_these_names(self):
        paths = dict(self.page.evaluate("[...document.querySelectorAll('#summary .tile')]"
                                        ".map(e => [e.querySelector('dt').innerText, e.querySelector('.figure').dataset.path])"))
        self.assertEqual(paths, {name.tile: name.path for name in NAMES if name.tile})
        self.assertIn("35.8 % of its steps", self.text("#summary"))

    def test_the_answer_comes_first(self):
        self.assertEqual(self.text("main > section:first-child .answer-text"), "Yes: training waits for data 34.0 % of its time (small reads)")
        self.assertIn(self.findings["findings"][0]["title"], self.text("#answer"))

    def test_the_function_table_has_the_rows_of_the_json(self):
        rows = self.texts("#functions .table tbody tr")
        self.assertEqual(len(rows), len(self.profile["functions"]))
        for row, function in zip(rows, self.profile["functions"], strict=True):
            self.assertIn(function["name"], row)
            self.assertIn(f"{function['count']:,}", row)

    def test_the_parts_of_a_bar_have_the_width_of_their_shares(self):
        widths = self.page.evaluate("[...document.querySelectorAll('#time-mean .bar span')].map(e => parseFloat(e.style.width))")
        mean = self.profile["time"]["mean"]
        self.assertAlmostEqual(sum(widths), 100, places=3)
        self.assertAlmostEqual(widths[2], 100 * mean["io_exposed_ns"] / mean["wall_ns"], places=3)

    # ---- zooming --------------------------------------------------------------------------------
    def test_a_drag_in_the_events_zooms_to_the_dragged_range(self):
        self.assertEqual(self.visible_range(), (0, self.wall))
        plot = self.plot()
        y = plot["y"] + 60
        self.page.drag(plot["x"] + plot["width"] * 0.25, y, plot["x"] + plot["width"] * 0.5, y)
        begin, end = self.visible_range()
        self.assertAlmostEqual(begin / self.wall, 0.25, delta=0.005)
        self.assertAlmostEqual(end / self.wall, 0.5, delta=0.005)
        self.assertIn("22.5", self.text("#range"))

    def test_a_drag_in_a_chart_zooms_all_views(self):
        box = self.page.box(".chart .u-over")
        before = self.page.evaluate("document.querySelector('#heat canvas').toDataURL()")
        self.page.drag(box["x"] + box["width"] * 0.6, box["y"] + 40, box["x"] + box["width"] * 0.7, box["y"] + 40)
        begin, end = self.visible_range()
        self.assertAlmostEqual(begin / self.wall, 0.6, delta=0.005)
        self.assertAlmostEqual(end / self.wall, 0.7, delta=0.005)
        self.assertNotEqual(self.page.evaluate("document.querySelector('#heat canvas').toDataURL()"), before)

    def test_the_wheel_zooms_around_the_pointer_after_a_click_on_the_view(self):
        plot = self.plot()
        x, y = plot["x"] + plot["width"] * 0.75, plot["y"] + 10
        self.page.click_at(x, y)
        self.page.wheel(x, y, -300)
        begin, end = self.visible_range()
        self.assertLess(end - begin, self.wall * 0.8)
        self.assertAlmostEqual((0.75 * self.wall - begin) / (end - begin), 0.75, delta=0.01)
        self.page.wheel(x, y, 3000)
        self.page.wheel(x, y, 3000)
        self.assertEqual(self.visible_range(), (0, self.wall))

    def test_keys_zoom_move_and_reset(self):
        self.page.key("+")
        begin, end = self.visible_range()
        self.assertAlmostEqual(end - begin, self.wall / 2, delta=2)
        self.page.evaluate("document.querySelector('#events canvas').focus()")
        self.page.key("ArrowRight")
        moved, _ = self.visible_range()
        self.assertAlmostEqual(moved - begin, self.wall / 10, delta=2)
        self.page.key("-")
        self.page.key("0")
        self.assertEqual(self.visible_range(), (0, self.wall))

    def go_to_the_window(self) -> dict:
        window = self.detail["windows"][0]
        self.page.evaluate("(() => { const list = document.querySelector('#places'); list.value = '0';"
                           " list.dispatchEvent(new Event('change')); })()")
        self.page.settle()
        self.assertEqual(self.visible_range(), (window["begin_ns"], window["end_ns"]))
        return window

    def test_from_the_whole_job_to_one_event_and_its_fields(self):
        window = self.go_to_the_window()
        read = next(i for i, name in enumerate(window["name"]) if self.detail["names"][name] == "read")
        begin = window["begin_ns"] + window["begin"][read]
        for _ in range(3):
            self.page.key("+")
        self.page.evaluate("document.querySelector('#events canvas').focus()")
        for _ in range(40):
            if self.visible_range()[0] <= begin:
                break
            self.page.key("ArrowLeft")
        first, last = self.visible_range()
        plot = self.plot()
        x = plot["x"] + plot["width"] * (begin + window["duration"][read] / 2 - first) / (last - first)
        self.page.mouse("mouseMoved", x, plot["y"] + 22 + 15 + 7)  # the second lane of the first thread
        self.page.settle()
        tip = self.text(".tip")
        for field in ("read", self.detail["names"][window["file"][read]], f"{window['offset'][read]:,}",
                      f"{window['size'][read]:,} bytes", "rank 0, process 4000, thread 4000"):
            self.assertIn(field, tip)
        self.page.click_at(x, plot["y"] + 22 + 15 + 7)
        self.assertIn(f"{window['offset'][read]:,}", self.text("#chosen-event"))

    def test_the_keyboard_moves_between_events(self):
        self.go_to_the_window()
        self.page.evaluate("document.querySelector('#events canvas').focus()")
        self.page.key("n")
        first = self.text("#chosen-event")
        self.assertIn("fetch", first)
        self.page.key("n")
        self.assertNotEqual(self.text("#chosen-event"), first)
        self.page.key("ArrowDown")
        self.assertIn("posix", self.text("#chosen-event"))
        span = self.visible_range()
        self.page.key("Enter")
        self.assertLess(self.visible_range()[1] - self.visible_range()[0], (span[1] - span[0]) / 10)

    def test_if_the_events_are_not_in_the_page_it_shows_the_command_for_them(self):
        self.assertEqual(self.text("#events-notice"), "")
        plot = self.plot()
        y = plot["y"] + 60
        self.page.drag(plot["x"] + plot["width"] * 0.1, y, plot["x"] + plot["width"] * 0.12, y)
        plot = self.plot()
        self.page.drag(plot["x"] + plot["width"] * 0.4, plot["y"] + 60, plot["x"] + plot["width"] * 0.6, plot["y"] + 60)
        notice = self.text("#events-notice")
        begin, end = self.visible_range()
        self.assertRegex(notice, r"millrace report traces/resnet --html part\.html --from [\d.]+s --until [\d.]+s --ranks 0,1,2,3")
        limits = [float(number) * 1e9 for number in re.findall(r"--(?:from|until) ([\d.]+)s", notice)]
        self.assertAlmostEqual(limits[0], begin, delta=2)
        self.assertAlmostEqual(limits[1], end, delta=2)

    def test_a_row_of_the_epochs_shows_the_epoch_over_time(self):
        self.page.click("#epochs .table tbody tr:nth-child(2)")
        epoch = self.profile["epochs"][1]
        begin, end = self.visible_range()
        self.assertLess(begin, epoch["begin_ns"])
        self.assertGreater(end, epoch["end_ns"])
        self.assertLess(end - begin, self.wall / 2)

    def test_an_epoch_of_many_ranks_is_one_interval(self):
        label = self.page.evaluate("document.querySelector('.stretches canvas').ariaLabel")
        self.assertEqual(label, "Stretches over time: 3 epochs, 3 checkpoints")
        plot = self.plot(".stretches canvas")
        self.page.mouse("mouseMoved", plot["x"] + plot["width"] * 0.1, plot["y"] + 10)
        self.page.settle()
        self.assertIn("4 ranks", self.text(".tip"))
        self.page.click_at(plot["x"] + plot["width"] * 0.5, plot["y"] + 10)
        epoch = self.profile["epochs"][1]
        self.assertEqual(self.visible_range(), (epoch["begin_ns"], epoch["end_ns"]))

    # ---- tables ---------------------------------------------------------------------------------
    def first_function(self) -> str:
        return self.text("#functions .table tbody tr:first-child td:first-child")

    def test_a_table_sorts_both_ways(self):
        by_count = sorted(self.profile["functions"], key=lambda row: row["count"])
        self.page.click("#functions th[data-key=count] button")
        self.assertEqual(self.first_function(), by_count[-1]["name"])
        self.page.click("#functions th[data-key=count] button")
        self.assertEqual(self.first_function(), by_count[0]["name"])
        self.assertEqual(self.page.evaluate("document.querySelector('#functions th[data-key=count]').ariaSort"), "ascending")
        self.page.click("#functions th[data-key=name] button")
        names = sorted((row["name"] for row in self.profile["functions"]), key=str.lower)
        self.assertEqual(self.first_function(), names[0])

    def test_a_table_filters_by_all_given_words(self):
        wanted = self.profile["files"][17]["path"]
        self.page.type("#files input", f"IMAGE_000017 {wanted[-8:-4]}")
        self.assertIn("1 of 60 rows", self.text("#files .table-status"))
        self.assertEqual([text.replace("\n", "") for text in self.texts("#files .table:first-of-type tbody tr td:first-child")], [wanted])
        self.page.evaluate("document.querySelector('#files input').value = ''")
        self.page.type("#files input", "no such file")
        self.assertIn("0 of 60 rows", self.text("#files .table-status"))

    def test_a_chosen_function_shows_its_histograms(self):
        openat = next(row for row in self.profile["functions"] if row["name"] == "openat")
        self.page.click("#functions .table tbody tr:nth-child(3)")
        self.assertIn("openat", self.text("#chosen-function h3"))
        counts = self.page.evaluate("[...document.querySelectorAll('#chosen-function .histogram-column')].map(e => +e.dataset.count)")
        first = next(i for i, count in enumerate(openat["latency_bins"]) if count)
        self.assertEqual(counts, openat["latency_bins"][first:])

    # ---- findings -------------------------------------------------------------------------------
    def follow(self, where: str) -> str:
        self.page.click(f'[data-where="{where}"]')
        shown = self.page.evaluate("(() => { const e = document.querySelector('.evidence-shown'); const b = e.getBoundingClientRect();"
                                   " return {text: e.innerText, top: b.top, focused: e === document.activeElement}; })()")
        self.assertTrue(shown["focused"])
        self.assertGreaterEqual(shown["top"], 0)
        self.assertLess(shown["top"], self.page.evaluate("innerHeight"))
        return shown["text"].replace("\n", "")

    def test_a_finding_links_to_its_evidence(self):
        path = self.profile["files"][-1]["path"]
        self.assertIn(path, self.follow(f"files:{path}"))
        self.assertIn("Mean of the ranks", self.follow("time.mean"))
        self.assertIn("Reads of data files", self.follow("data_reads"))
        self.assertIn("checkpoint_0.pt", self.follow("checkpoints"))
        self.assertRegex(self.follow("epochs:1"), "^1\\t30 s")
        self.assertIn("128 KiB", self.follow("functions:read"))
        self.assertIn("read", self.text("#chosen-function h3"))

    def test_evidence_without_a_part_of_the_page_has_no_link(self):
        self.assertIn("a fact of a part that the page does not know", self.text("#finding-1"))
        self.assertEqual(self.count('[data-where^="nowhere"]'), 0)

    def test_the_change_for_the_jobs_framework_comes_first(self):
        self.assertEqual(self.texts("#finding-0 .changes:first-of-type dt"), ["pytorch", "lustre"])

    def test_other_ways_follow_the_changes_of_a_finding(self):
        self.assertEqual(self.texts("#finding-0 .changes dd"),
                         ["pack the samples into shards, and read them with buffering=1 << 20", "lfs setstripe -S 1M -c 4 /data", "prefetch"])
        self.assertEqual(self.text("#finding-0 .way"), "Or: batches are not prefetchedsaves up to 9 s, 10.0 % of the wall time")
        self.assertEqual(self.text("#finding-0 header .gain"), "saves up to 21 s, 23.0 % of the wall time")
        self.assertEqual(self.text("#finding-1 header .gain"), "the gain cannot be estimated")

    # ---- looks ----------------------------------------------------------------------------------
    def test_dark_and_light(self):
        back = "getComputedStyle(document.body).backgroundColor"
        canvas = "document.querySelector('#heat canvas').toDataURL()"
        light, drawn = self.page.evaluate(back), self.page.evaluate(canvas)
        self.page.click("#theme-button")
        self.assertNotEqual(self.page.evaluate(back), light)
        self.assertNotEqual(self.page.evaluate(canvas), drawn)
        self.page.key("d")
        self.assertEqual(self.page.evaluate(back), light)

    def test_it_is_dark_if_the_system_is(self):
        self.page.evaluate("localStorage.clear()")
        self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.page.navigate(self.path)
        self.page.wait_for("document.documentElement.dataset.theme === 'dark'", "the page is dark")

    def test_it_fits_a_narrow_window_and_a_wide_one(self):
        for width in (390, 800, 2560):
            self.page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            self.page.settle()
            self.assert_nothing_is_wider_than_the_window()
            drawn = self.page.evaluate("document.querySelector('#events canvas').clientWidth")
            self.assertLess(abs(drawn - min(width, 1440)), 130)

    def test_the_flame_graph_zooms_by_click_and_keys(self):
        before = self.count(".flame-box")
        self.page.click('.flame-box[aria-level="2"]')
        self.assertLess(self.count(".flame-box"), before)
        self.assertEqual(self.page.evaluate("document.activeElement.getAttribute('aria-level')"), "2")
        self.page.key("ArrowDown")
        self.assertEqual(self.page.evaluate("document.activeElement.getAttribute('aria-level')"), "3")
        self.page.key("Escape")
        self.assertEqual(self.count(".flame-box"), before)

    def test_the_help_lists_the_keys(self):
        self.page.key("?")
        self.assertTrue(self.page.evaluate("document.querySelector('#help').open"))
        self.assertIn("whole job", self.text("#help"))
        self.page.key("Escape")
        self.assertFalse(self.page.evaluate("document.querySelector('#help').open"))

    def test_everything_that_is_drawn_or_pressed_has_a_name(self):
        nameless = self.page.evaluate(
            "[...document.querySelectorAll('button, select, input, canvas, [role=img], a')]"
            ".filter(e => !(e.ariaLabel || e.innerText || e.title || '').trim() && !e.closest('[aria-hidden=true], [role=img]'))"
            ".map(e => e.outerHTML.slice(0, 200))")
        self.assertEqual(nameless, [])

    def test_it_prints_in_light_colours_and_completely(self):
        self.page.click("#theme-button")
        pdf = self.page.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreaterEqual(len(re.findall(rb"/Type\s*/Page\b", pdf)), 3)
        self.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.page.evaluate("document.documentElement.dataset.theme"), "light")
        self.assertEqual(self.count("#files .table:first-of-type tbody tr"), 26)  # twenty-five, and a line with the number of others
        self.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.page.evaluate("document.documentElement.dataset.theme"), "dark")


class ARealTracesPage(PageTest):
    """The page of `millrace report --html` for the golden trace, compared with its --json."""

    @classmethod
    def make(cls) -> Path:
        millrace = os.environ.get("MILLRACE", "")
        if not millrace or subprocess.run([millrace, "report", "--help"], capture_output=True, check=False).returncode != 0:
            raise unittest.SkipTest("this build has no verb report")
        page = page_case.folder / "real.html"
        trace = SOURCE / "tests/golden/trace.mrt"
        subprocess.run([millrace, "report", trace, "--html", page], check=True, capture_output=True)
        printed = subprocess.run([millrace, "report", trace, "--json"], check=True, capture_output=True, text=True).stdout
        cls.profile = json.loads(printed)
        return page

    def test_it_shows_the_figures_of_the_json(self):
        self.assert_figures_are_those_of(self.profile)
        self.assertNotRegex(self.text("body"), "NaN|undefined|Infinity")
        self.assert_nothing_is_wider_than_the_window()

    def test_it_zooms(self):
        before = self.visible_range()
        self.page.key("+")
        self.assertNotEqual(self.visible_range(), before)


class AGivenPage(ARealTracesPage):
    @classmethod
    def make(cls) -> Path:
        if len(given) != 2:
            raise unittest.SkipTest("no page was given")
        cls.profile = json.loads(Path(given[1]).read_text(encoding="utf-8"))
        return Path(given[0])


given: list[str] = []

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0].endswith(".html"):
        given, arguments = arguments, ["AGivenPage"]
    page_case.main(arguments)
