"""`millrace report` on real traces, on broken traces, and under mpirun.

Usage: report_test.py MILLRACE MPIEXEC PYTHON EXAMPLES [unittest arguments]. If MPIEXEC is "none", the tests
of ranks are skipped. PYTHON needs numpy; if it is "none", the example is not run. EXAMPLES is python/examples."""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

# The folder for Open MPI's files. By default, all jobs of a user share one, and each job may remove it at its end. A
# short name: it contains sockets, whose paths have at most 108 bytes.
MPI_SCRATCH = tempfile.TemporaryDirectory(prefix="mr")
MILLRACE, MPIEXEC, PYTHON, EXAMPLES = ["" if argument == "none" else argument for argument in sys.argv[1:5]]

READER = """
import os, sys
for name in sys.argv[1:]:
    with open(name, "rb", buffering=0) as file:
        while file.read(1000):
            pass
if not os.environ.get("CHILD"):
    os.environ["CHILD"] = "1"
    for i in range(6):
        os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-S", __file__] + sys.argv[1:])
"""


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)


def ranks_environment():
    # Memory that an MPI keeps until its end is not our leak.
    leaks = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_orte_tmpdir_base=MPI_SCRATCH.name, ASAN_OPTIONS=leaks)


def checked(test, *arguments):
    made = run(MILLRACE, *arguments)
    test.assertEqual(made.returncode, 0, made.stderr)
    return made.stdout


def findings_of_page(path):
    with open(path, encoding="utf-8") as file:
        encoding, data = re.search(r'id="data-findings" data-encoding="(\w+)">([^<]*)', file.read()).groups()
    packed = base64.b64decode(data)
    return json.loads(gzip.decompress(packed) if encoding == "gzip" else packed)


def assert_all_outputs_agree(test, trace):
    """Report and advise, as text, JSON and page, of the trace and of its saved profile."""
    machine = ("--cores", "4", "--memory", "64GiB", "--local-disk", "1TB", "--data-storage", "lustre",
               "--checkpoint-storage", "lustre")
    with tempfile.TemporaryDirectory() as scratch:
        saved, page = os.path.join(scratch, "saved.json"), os.path.join(scratch, "page.html")
        report = checked(test, "report", "--json", *machine, trace)
        with open(saved, "w", encoding="utf-8") as file:
            file.write(report)
        advice = checked(test, "advise", "--json", *machine, trace)
        test.assertEqual(checked(test, "advise", "--json", *machine, saved), advice)
        said = {key: json.loads(advice)[key] for key in ("verdict", "findings")}
        test.assertEqual({key: json.loads(report)[key] for key in said}, said)
        checked(test, "report", "--html", page, *machine, trace)
        test.assertEqual(findings_of_page(page), said)
        for verb in ("report", "advise"):
            test.assertIn(said["verdict"]["sentence"], " ".join(checked(test, verb, *machine, trace).split()))


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.shared = os.path.realpath(scratch.name)
        cls.files = []
        for i in range(5):
            cls.files.append(os.path.join(cls.shared, f"sample{i}.bin"))
            with open(cls.files[-1], "wb") as file:
                file.write(os.urandom(7000))
        script = os.path.join(cls.shared, "reader.py")
        with open(script, "w") as file:
            file.write(READER)
        cls.trace = os.path.join(cls.shared, "trace")
        traced = run(MILLRACE, "trace", "-o", cls.trace, "--", sys.executable, "-S", script, *cls.files)
        assert traced.returncode == 0, traced.stderr

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.realpath(scratch.name)

    def packed(self):
        (name,) = [name for name in os.listdir(self.trace) if name.endswith(".mrt")]
        return os.path.join(self.trace, name)

    def report(self, *arguments, code=0):
        made = run(MILLRACE, "report", *arguments)
        self.assertEqual(made.returncode, code, made.stderr)
        return made

    def test_report_and_advise_say_the_same(self):
        assert_all_outputs_agree(self, self.trace)

    def test_report_and_advise_say_the_same_of_a_failed_job(self):
        trace = os.path.join(self.directory, "trace")
        run(MILLRACE, "trace", "-o", trace, "--", "sh", "-c", f"cat {self.files[0]} > /dev/null; exit 3")
        assert_all_outputs_agree(self, trace)

    def test_the_numbers_match_the_program(self):
        profile = json.loads(self.report("--json", self.trace).stdout)
        files = {file["path"]: file for file in profile["files"]}
        for name in self.files:
            file = files[name]
            self.assertEqual(file["io"]["opens"], 7)
            self.assertEqual(file["io"]["reads"], 7 * 8)
            self.assertEqual(file["io"]["bytes_read"], 7 * 7000)
            self.assertEqual(file["unique_bytes_read"], 7000)
            self.assertEqual(file["size_bytes"], 7000)
            self.assertEqual(file["kind"], "data")
        self.assertEqual(profile["job"]["processes"], 7)
        self.assertEqual(profile["job"]["dataset_files"], 5)
        self.assertEqual(profile["job"]["dataset_bytes"], 35000)

    def test_every_table_exists_in_every_output_format(self):
        for table in ("function layer file directory extension kind host rank epoch action step").split():
            self.report("--by", table, self.trace)
            rows = json.loads(self.report("--by", table, "--json", self.trace).stdout)["rows"]
            lines = self.report("--by", table, "--csv", self.trace).stdout.splitlines()
            self.assertEqual(len(lines), len(rows) + 1, table)

    def test_it_is_readable_at_80_columns_without_colour(self):
        text = self.report(self.trace).stdout
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)
        self.assertNotIn("\x1b", text)
        self.assertIn("Is data the bottleneck?", text)

    def test_no_share_exceeds_the_whole_if_outputs_are_read_too(self):
        """Like a compiler: one process writes a file, and another reads it in many small pieces."""
        trace = os.path.join(self.directory, "trace")
        output = os.path.join(self.directory, "made.s")
        traced = run(MILLRACE, "trace", "-o", trace, "--", "sh", "-c",
                     f"seq 2000 > {output}; dd if={output} of=/dev/null bs=64 status=none; "
                     f"dd if={self.files[0]} of=/dev/null bs=64K status=none")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        (access,) = [line for line in self.report(trace).stdout.splitlines() if line.startswith("access")]
        self.assertRegex(access, r"^access +2 reads, 50\.0 % of 6\.84 KiB, ")
        for share in re.findall(r"([0-9.]+) %", self.report(trace).stdout):
            self.assertLessEqual(float(share), 100, access)

    def test_reads_of_many_sizes_have_no_common_one(self):
        script = os.path.join(self.directory, "reader.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import sys\n"
                       "with open(sys.argv[1], 'rb', buffering=0) as file:\n"
                       "    for size in range(1, 100): file.read(size)\n")
        trace = os.path.join(self.directory, "trace")
        traced = run(MILLRACE, "trace", "-o", trace, "--", sys.executable, "-S", script, self.files[0])
        self.assertEqual(traced.returncode, 0, traced.stderr)
        (access,) = [line for line in self.report(trace).stdout.splitlines() if line.startswith("access")]
        self.assertRegex(access, r"^access +99 reads, of many sizes, 100\.0 % under 64 KiB")

    def test_the_table_of_files_counts_ranks_that_only_write(self):
        trace = os.path.join(self.directory, "trace")
        made = os.path.join(self.directory, "made.txt")
        traced = run(MILLRACE, "trace", "-o", trace, "--", "sh", "-c", f"seq 20 > {made}")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        rows = json.loads(self.report("--by", "file", "--json", trace).stdout)["rows"]
        (row,) = [row for row in rows if row["path"] == made]
        self.assertEqual((row["ranks"], row["readers"]), (1, 0))
        heading, *lines = self.report("--by", "file", trace).stdout.splitlines()
        self.assertEqual(heading.split()[-3:], ["ranks", "readers", "epochs"])
        self.assertIn(["1", "0", "0"], [line.split()[-3:] for line in lines])

    def test_a_part_by_time_and_rank(self):
        whole = json.loads(self.report("--json", self.trace).stdout)["job"]
        half = json.loads(self.report("--json", "--until", f"{whole['wall_ns'] // 2}ns", self.trace).stdout)["job"]
        self.assertLess(half["events"], whole["events"])
        self.assertGreater(half["events"], 0)
        none = json.loads(self.report("--json", "--ranks", "7", self.trace).stdout)["job"]
        self.assertEqual(none["events"], 0)

    def test_a_truncated_file_is_used_and_named(self):
        torn = os.path.join(self.directory, "torn.mrt")
        with open(self.packed(), "rb") as file:
            content = file.read()
        with open(torn, "wb") as file:
            file.write(content[:-100])  # without the trailer and a part of the index
        made = self.report(torn, "--json")
        self.assertIn("torn.mrt", made.stderr)
        self.assertGreater(json.loads(made.stdout)["job"]["events"], 0)

    def test_flipped_bits_lose_only_their_block_and_are_reported(self):
        broken = os.path.join(self.directory, "broken.mrt")
        with open(self.packed(), "rb") as file:
            content = bytearray(file.read())
        content[len(content) // 2] ^= 0x10
        with open(broken, "wb") as file:
            file.write(content)
        made = self.report(broken, "--json")
        self.assertIn("broken.mrt", made.stderr)
        self.assertGreater(json.loads(made.stdout)["job"]["events"], 0)

    def test_foreign_empty_and_newer_files_do_not_prevent_reading_the_rest(self):
        shutil.copy(self.packed(), os.path.join(self.directory, "good.mrt"))
        with open(os.path.join(self.directory, "good.mrt"), "rb") as file:
            newer = bytearray(file.read())
        newer[8] = 99
        for name, content in (("newer.mrt", newer), ("empty.mrt", b""), ("foreign.mrt", b"not a trace\n"),
                              ("notes.txt", b"not meant as one\n"), ("broken.pfw.gz", b"\x1f\x8b\x08\x00no")):
            with open(os.path.join(self.directory, name), "wb") as file:
                file.write(content)
        made = self.report(self.directory, "--json")
        for name in ("newer.mrt", "empty.mrt", "foreign.mrt", "broken.pfw.gz"):
            self.assertIn(name, made.stderr)
        self.assertNotIn("notes.txt", made.stderr)
        whole = json.loads(self.report("--json", self.trace).stdout)
        self.assertEqual(json.loads(made.stdout)["job"]["events"], whole["job"]["events"])

    def test_if_no_file_is_usable_it_fails_and_names_each(self):
        for name in ("a.mrt", "b.mrt"):
            with open(os.path.join(self.directory, name), "wb") as file:
                file.write(b"nothing")
        made = self.report(self.directory, code=1)
        self.assertIn("a.mrt", made.stderr)
        self.assertIn("b.mrt", made.stderr)
        self.assertIn("no such file", self.report(os.path.join(self.directory, "none"), code=1).stderr)
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        self.assertIn("contains no trace", self.report(empty, code=1).stderr)

    @unittest.skipIf(os.geteuid() == 0 and not shutil.which("setpriv"), "root may read everything")
    def test_a_file_without_permission_is_named(self):
        os.chmod(self.directory, 0o755)
        shutil.copy(self.packed(), os.path.join(self.directory, "good.mrt"))
        shutil.copy(self.packed(), os.path.join(self.directory, "secret.mrt"))
        os.chmod(os.path.join(self.directory, "secret.mrt"), 0)
        os.chmod(os.path.join(self.directory, "good.mrt"), 0o644)
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        if other and run(*other, MILLRACE, "--version").returncode != 0:
            self.skipTest("another user cannot run the program where it is")
        made = run(*other, MILLRACE, "report", "--json", self.directory)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("secret.mrt", made.stderr)

    def test_other_tools_files_give_the_same_counts(self):
        pfw = os.path.join(self.directory, "log.pfw.gz")
        self.assertEqual(run(MILLRACE, "export", self.trace, "--to", "pfw", "-o", pfw).returncode, 0)
        ours = json.loads(self.report("--json", self.trace).stdout)
        theirs = json.loads(self.report("--json", pfw).stdout)
        for figure in ("events", "processes", "dataset_files", "dataset_bytes_read", "bytes_read"):
            self.assertEqual(theirs["job"][figure], ours["job"][figure], figure)
        self.assertEqual([row["count"] for row in theirs["functions"]], [row["count"] for row in ours["functions"]])
        self.assertEqual(json.loads(self.report("--json", self.directory).stdout)["job"]["events"],
                         ours["job"]["events"])

    def test_several_jobs_are_compared_side_by_side(self):
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(self.trace, copy)
        made = json.loads(self.report("--json", self.trace, copy).stdout)
        self.assertEqual(len(made["scaling"]), 2)
        self.assertEqual(len(made["jobs"]), 2)
        self.assertIn("== ", self.report(self.trace, copy).stdout)

    def test_folded_stacks_contain_the_calls(self):
        made = run(MILLRACE, "export", self.trace, "--to", "folded", "-o", "/dev/stdout")
        self.assertEqual(made.returncode, 0, made.stderr)
        lines = made.stdout.splitlines()
        self.assertTrue(any(line.split()[0].endswith("read") for line in lines), lines)

    def test_a_page_is_written_completely(self):
        page = os.path.join(self.directory, "t.html")
        self.report("--html", page, self.trace)
        self.assertLess(os.path.getsize(page), 5_000_000)
        with open(page, encoding="utf-8") as file:
            self.assertTrue(file.read().rstrip().endswith("</html>"))
        missing = os.path.join(self.directory, "none", "t.html")
        self.assertIn("t.html", self.report("--html", missing, self.trace, code=1).stderr)

    @unittest.skipUnless(MPIEXEC, "no mpirun")
    def test_ranks_divide_the_work_and_get_the_same_result(self):
        environment = ranks_environment()
        shared = run(MPIEXEC, "--oversubscribe", "-n", "3", MILLRACE, "report", "--json", self.trace, env=environment)
        self.assertEqual(shared.returncode, 0, shared.stderr)
        self.assertEqual(json.loads(shared.stdout), json.loads(self.report("--json", self.trace).stdout))

    @unittest.skipUnless(MPIEXEC, "no mpirun")
    def test_the_output_of_ranks_has_no_colours(self):
        """mpirun gives rank 0 a terminal even if its own output is not one."""
        made = run(MPIEXEC, "--oversubscribe", "-n", "2", MILLRACE, "report", self.trace,
                   env=dict(ranks_environment(), TERM="xterm"))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("Is data the bottleneck?", made.stdout)
        self.assertNotIn("\x1b", made.stdout)

    @unittest.skipUnless(MPIEXEC, "no mpirun")
    def test_an_error_on_all_ranks_is_printed_once(self):
        environment = ranks_environment()
        missing = os.path.join(self.directory, "missing")
        shared = run(MPIEXEC, "--oversubscribe", "-n", "3", MILLRACE, "report", missing, env=environment)
        self.assertNotEqual(shared.returncode, 0)
        self.assertEqual(shared.stderr.count("no such file"), 1, shared.stderr)


@unittest.skipUnless(PYTHON, "this build has no Python package")
class ExampleTest(unittest.TestCase):
    def test_the_quickstart_example_is_traced_and_understood(self):
        with tempfile.TemporaryDirectory() as scratch:
            data = os.path.join(scratch, "data")
            made = run(PYTHON, os.path.join(EXAMPLES, "make_dataset.py"), data, "--samples", "120", "--size", "16")
            self.assertEqual(made.returncode, 0, made.stderr)
            package = os.path.join(os.path.dirname(os.path.dirname(MILLRACE)), "python")
            environment = dict(os.environ, PYTHONPATH=package)
            trace = os.path.join(scratch, "trace")
            trained = run(MILLRACE, "trace", "-o", trace, "--", PYTHON, os.path.join(EXAMPLES, "train.py"), data,
                          "--epochs", "2", "--batch", "20", "--checkpoint", os.path.join(scratch, "net.npz"),
                          env=environment)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            profile = json.loads(run(MILLRACE, "report", "--json", trace).stdout)
            files = [file for file in profile["files"] if file["path"].startswith(data) and file["io"]["reads"]]
            self.assertEqual(len(files), 120)
            assert_all_outputs_agree(self, trace)
            if not os.path.isdir(package):
                return
            self.assertEqual(profile["job"]["epochs"], 2)
            self.assertEqual(profile["job"]["steps"], 12)
            self.assertEqual(profile["time"]["basis"], "regions")
            self.assertEqual(profile["data"]["order"], "shuffled")
            self.assertEqual(profile["data"]["files_every_epoch"], 120)
            self.assertGreater(profile["time"]["mean"]["wait_share"], 0)
            self.assertEqual(len(profile["checkpoints"]), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
