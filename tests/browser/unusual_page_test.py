#!/usr/bin/env python3
"""Pages of unusual profiles in a real browser: empty, small, large, damaged, of another version, and with hostile names."""

import base64
import copy
import gzip
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import page_case  # noqa: E402
import sample_data  # noqa: E402
from page_case import PageTest, make_page  # noqa: E402


class AnEmptyProfilesPage(PageTest):
    @classmethod
    def make(cls) -> Path:
        cls.profile = sample_data.empty_profile()
        verdict = {"answer": "unknown", "sentence": "nothing was recorded"}
        return make_page("empty", cls.profile, {"verdict": verdict, "findings": []}, sample_data.empty_detail())

    def test_every_part_says_that_it_is_empty(self):
        self.assertIn("Nothing was recorded", self.text("#answer"))
        for part in ("findings", "time", "over-time", "epochs", "functions", "access", "files", "tree"):
            self.assertEqual(self.count(f"#{part} .empty"), 1, part)
        self.assertNotRegex(self.text("body"), "NaN|undefined|Infinity|null")
        for path in ("job.events", "job.dataset_bytes_read", "job.wall_ns"):
            self.assertEqual(self.page.evaluate(f"document.querySelector('[data-path=\"{path}\"]').dataset.value"), "0")

    def test_keys_do_no_harm(self):
        for key in ("+", "-", "0", "/", "d"):
            self.page.key(key)


class ASmallProgramsPage(PageTest):
    """One rank, no regions, no checkpoints, and a trace with an unreadable part."""

    @classmethod
    def make(cls) -> Path:
        job = sample_data.Job(ranks=1, epochs=1, files=1, heat_ranks=1, threads_per_rank=1, events=40)
        cls.profile = job.profile()
        for name in ("epochs", "stretches", "checkpoints", "extensions", "hosts"):
            cls.profile[name] = []
        cls.profile["steps"] = sample_data.empty_profile()["steps"]
        cls.profile["time"]["basis"] = "none"
        cls.profile["time"]["hosts"] = []
        cls.profile["job"] |= {"epochs": 0, "steps": 0, "lost_events": 17}
        cls.profile["problems"] = ["t/a.mrt: block 3 is damaged: its checksum is wrong; the rest was used"]
        detail = job.detail()
        detail["levels"] = []
        detail["origin_ns"] = 5 * sample_data.SECOND
        return make_page("small", cls.profile, {"findings": [], "verdict": {"answer": "no", "sentence": "no: 0.1 % of the time"}}, detail)

    def test_it_shows_its_figures_and_what_could_not_be_read(self):
        self.assert_figures_are_those_of(self.profile)
        self.assertIn("block 3 is damaged", self.text("#problems"))
        self.assertIn("17 events were lost", self.text("#problems"))
        self.assertEqual(self.text(".answer-text"), "No: 0.1 % of the time")
        self.assertEqual(self.count("#answer.answer-fine"), 1)
        self.assertNotRegex(self.text("body"), "NaN|undefined|Infinity")

    def test_a_page_of_a_part_shows_commands_for_the_whole_trace(self):
        self.assertIn("from 5s on", self.text("#summary"))
        self.page.key("+")
        begin, end = self.visible_range()
        limits = [float(number) for number in re.findall(r"--(?:from|until) ([\d.]+)s", self.text("#events-notice"))]
        self.assertAlmostEqual(limits[0], 5 + begin / 1e9, delta=1e-8)
        self.assertAlmostEqual(limits[1], 5 + end / 1e9, delta=1e-8)

    def test_without_bins_the_events_are_still_shown(self):
        self.page.evaluate("(() => { const list = document.querySelector('#places'); list.value = '0';"
                           " list.dispatchEvent(new Event('change')); })()")
        self.page.evaluate("document.querySelector('#events canvas').focus()")
        self.page.settle()
        self.page.key("n")
        self.assertIn("fetch", self.text("#chosen-event"))


EVIL = ["</script><script>window.pwned = 1</script>", "<img src=x onerror=\"window.pwned = 1\">", "'\"><b>bold</b>&amp;&lt;",
        "/data/\u202egpj.exe", "/data/\x1b[31mred\x07\x00\x9b", "/data/a\nb\r\tc\u2028d", "/data/\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627.jpg",
        "__proto__", "constructor", "/" + "x" * 4096, "", "\ufffd\ufffd", "${7*7}{{7*7}}", "javascript:window.pwned=1"]


def poisoned(value, names):
    """The same value with every name replaced by a hostile one."""
    if isinstance(value, dict):
        return {key: poisoned(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [poisoned(part, names) for part in value]
    if isinstance(value, str):
        return next(names)
    return value


class AnAdversarialPage(PageTest):
    """All names that others choose (files, regions, hosts, commands), and here even our own texts, are hostile."""

    @classmethod
    def make(cls) -> Path:
        job = sample_data.Job(files=len(EVIL) * 2, groups=20)
        names = iter(lambda: next(cls.cycle), None)
        cls.cycle = (EVIL[i % len(EVIL)] for i in range(10**9))
        profile = poisoned(job.profile(), names)
        profile["time"]["basis"] = "regions"
        cls.profile = profile
        findings = poisoned(sample_data.findings(copy.deepcopy(profile)), names)
        findings["findings"][0]["evidence"] = [{"text": evil, "where": f"files:{evil}"} for evil in EVIL]
        return make_page("evil", profile, findings, poisoned(job.detail(), names))

    def test_names_are_only_text(self):
        self.assertIsNone(self.page.evaluate("window.pwned ?? null"))
        self.assertEqual(self.count("img, b, iframe, main script"), 0)
        self.page.type("#files input", "script")
        self.assertIn("window.pwned = 1", self.text("#files .table tbody"))
        self.assert_nothing_is_wider_than_the_window()

    def test_characters_that_reverse_or_hide_text_are_shown(self):
        text = self.page.evaluate("document.body.textContent")
        self.assertEqual(set(text) & set("\u202e\u2028\x1b\x07\x9b\x00"), set())
        for shown in ("\\u202egpj.exe", "\\x1b[31m", "a\\x0ab", "\\u2028d"):
            self.assertTrue(shown in text, shown)

    def test_evidence_with_any_name_can_be_followed(self):
        for index in range(len(EVIL)):
            self.page.evaluate(f"document.querySelectorAll('#finding-0 .evidence a')[{index}].click()")
        self.page.settle()
        self.assertIsNone(self.page.evaluate("window.pwned ?? null"))

    def test_the_views_draw_and_zoom(self):
        self.page.key("+")
        self.page.evaluate("document.querySelector('#events canvas').focus()")
        self.page.key("n")
        self.page.key("Enter")
        box = self.plot()
        self.page.mouse("mouseMoved", box["x"] + 100, box["y"] + 40)


class ALargePage(PageTest):
    """The largest possible profile (Limits in scan.h), and 100,000 events."""

    @classmethod
    def make(cls) -> Path:
        job = sample_data.Job(ranks=256, epochs=20, files=1000, groups=500, bins=1000, heat_ranks=256, heat_bins=240, nodes=2000,
                              events=100_000, threads_per_rank=1, wall=3600 * sample_data.SECOND, windows=3, functions=60)
        cls.profile = job.profile()
        return make_page("large", cls.profile, sample_data.findings(cls.profile), job.detail())

    def test_it_is_at_most_five_megabytes_and_says_how_long_it_took(self):
        size = self.path.stat().st_size
        print(f"large page: {size / 1e6:.2f} MB, built {self.page.evaluate('document.documentElement.dataset.ready')} ms after the navigation")
        self.assertLess(size, 5_000_000)
        self.assert_figures_are_those_of(self.profile)

    def test_only_visible_rows_exist(self):
        self.assertLess(self.count("#files .table:first-of-type tbody tr"), 50)
        by_time = sorted(self.profile["files"], key=lambda row: row["io"]["read_ns"])
        self.page.evaluate("document.querySelector('#files .table-scroller').scrollTop = 1e9")
        self.page.settle()
        self.assertIn(by_time[0]["io"]["read_ns"], {row["io"]["read_ns"] for row in self.profile["files"]
                      if row["path"] == self.texts("#files .table:first-of-type tbody tr:last-child td:first-child")[0].replace("\n", "")})

    def test_a_rank_far_down_can_be_found_among_the_threads(self):
        top = "document.querySelector('.events-scroller').scrollTop"
        self.page.type("#events input", "rank 200")
        found = self.page.evaluate(top)
        self.assertGreater(found, 1000)
        self.page.evaluate(f"{top} = 0")
        box = self.page.box("#heat canvas")
        self.page.click_at(box["x"] + 500, box["y"] + box["height"] * 200.5 / 256)
        self.assertEqual(self.page.evaluate(top), found)

    def test_a_finding_links_to_a_row_far_down(self):
        path = self.profile["files"][-1]["path"]
        self.page.evaluate(f"document.querySelector('[data-where=\"files:{path}\"]').click()")
        self.page.settle()
        self.assertIn(path, self.text(".evidence-shown").replace("\n", ""))


class APlainPage(PageTest):
    """A page made by a build without zlib."""

    @classmethod
    def make(cls) -> Path:
        job = sample_data.Job()
        cls.profile = job.profile()
        page = make_page("plain", cls.profile, sample_data.findings(cls.profile), job.detail())
        unpack = lambda match: f'data-encoding="plain">{base64.b64encode(gzip.decompress(base64.b64decode(match[1]))).decode()}</script>'
        text = re.sub(r'data-encoding="gzip">([^<]*)</script>', unpack, page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")
        return page

    def test_it_shows_the_same_figures(self):
        self.assertIn('data-encoding="plain"', self.path.read_text(encoding="utf-8"))
        self.assert_figures_are_those_of(self.profile)


class ADamagedPage(PageTest):
    expects_errors = True

    @classmethod
    def make(cls) -> Path:
        page = make_page("damaged", sample_data.empty_profile(), {"findings": []}, sample_data.empty_detail())
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace('data-encoding="gzip">H4sI', 'data-encoding="gzip">H4sJ', 1).replace('data-encoding="plain">', 'data-encoding="plain">e3t7', 1), encoding="utf-8")
        return page

    def test_it_says_that_it_is_damaged(self):
        self.assertIn("cannot be shown", self.text("main"))
        self.assertNotEqual(self.text("#failure"), "")


class APageOfAnotherVersion(PageTest):
    """A part of the profile does not have the form that the page expects."""

    expects_errors = True

    @classmethod
    def make(cls) -> Path:
        job = sample_data.Job()
        cls.profile = job.profile()
        del cls.profile["tree"]
        cls.profile["ranks"][0]["calls_in_flight"] = None
        return make_page("version", cls.profile, sample_data.findings(cls.profile), job.detail())

    def test_that_part_says_so_and_the_others_are_shown(self):
        self.assertIn("cannot be shown", self.text("#tree"))
        self.assertIn("cannot be shown", self.text("#ranks"))
        self.assert_figures_are_those_of(self.profile)
        self.assertEqual(self.count(".empty"), 2)
        self.page.key("+")
        self.assertLess(self.visible_range()[1], self.profile["job"]["wall_ns"])


if __name__ == "__main__":
    page_case.main(sys.argv[1:])
