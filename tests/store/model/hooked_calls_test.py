#!/usr/bin/env python3
"""Every call that the client hooks is made by an operation of the model, or it is listed here with the test that makes it.

It reads the sources only: exports.map has the hooked calls, driver*.c has what an operation calls, and operations.generate
has which operations there are. So somebody who hooks one more call has to add an operation."""

import functools
import os
import re
import unittest
from pathlib import Path

import operations

MODEL = Path(__file__).absolute().parent
SOURCE = Path(os.environ.get("MILLRACE_SOURCE", MODEL.parents[2]))
SEEDS = 200
# Hooked calls without an operation: why, the test below tests/store that makes them, and a word in it.
NOT_OPERATIONS = {
    "millrace_store_before_vfork": ("vfork calls it", "model/operations.py", "vfork"),
    "millrace_store_after_vfork": ("vfork calls it", "model/operations.py", "vfork"),
}


def plain(name: str) -> str:
    """As plain_name in driver.c."""
    return name.replace("64", "").lstrip("_")


class Driver:
    """What the sources of the driver say."""

    def __init__(self, texts: list[str]) -> None:
        text = re.sub(r"//.*", "", "\n".join(texts))
        self.bodies = {match[1]: match[2] for match in
                       re.finditer(r"^[a-z][^\n;=]*?\b(\w+)\([^;{]*?\) \{([^\n]+\}$|\n.*?^\})", text, re.MULTILINE | re.DOTALL)}
        self.functions = {name: f"do_{name}" for name in re.findall(r"\bOPERATION\((\w+)\)[,;]", text)}
        self.functions |= {f"{name}:{plain(other)}": f"do_{name}_{other}" for name, other in re.findall(r"VARIANT\((\w+), (\w+)\)", text)}

    def reached(self, function: str) -> str:
        """The bodies of a function and of all that it names."""
        seen, pending = set(), [function]
        while pending:
            name = pending.pop()
            if name in seen or name not in self.bodies or name == "called":
                continue
            seen.add(name)
            pending += re.findall(r"\w+", self.bodies[name])
        return "\n".join(self.bodies[name] for name in sorted(seen))

    def calls(self, word: str) -> set[str]:
        """What an operation calls, such as `stat` or `stat:stat64`."""
        operation, _, other = word.partition(":")
        own = self.functions.get(f"{operation}:{plain(other)}")
        text = self.reached(own or self.functions[operation])
        replaced = set(re.findall(r"CALL\((\w+)\)", text))
        found = set(re.findall(r"(\w+)\(", text)) | set(re.findall(r'RTLD_DEFAULT, "(\w+)"', text)) | replaced
        known = found | {other for name in replaced if plain(name) == plain(other)}
        if other and other not in known:
            raise AssertionError(f"'{word}': the driver has no VARIANT({operation}, {other}), and '{operation}' calls nothing like it")
        chosen = set(re.findall(r'is_other\("(\w+)"\)', text))  # which of these is called depends on `other`
        alike = {name for name in replaced if other and plain(name) == plain(other)}
        return (found - chosen - alike) | ({other} if other else set())


def sources() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(MODEL.glob("driver*.c"))]


def hooked() -> set[str]:
    text = (SOURCE / "src" / "store" / "preload" / "exports.map").read_text(encoding="utf-8")
    return set(re.findall(r"(\w+);", text))


@functools.cache
def generated() -> set[str]:
    """The first words of all operations."""
    lines = (line for seed in range(SEEDS) for _, line in operations.generate(seed, 200, 2))
    return {line.removeprefix("fork ").removeprefix("thread ").split()[0] for line in lines}


class HookedCallsTest(unittest.TestCase):
    def test_every_hooked_call_is_an_operation(self):
        driver = Driver(sources())
        called = set().union(*(driver.calls(word) for word in generated()))
        self.assertEqual(sorted(hooked() - called - set(NOT_OPERATIONS)), [], "add an operation: see README.md")

    def test_every_operation_and_other_call_is_generated(self):
        words = generated()
        # The harness asks these.
        wanted = {name for name in Driver(sources()).functions if ":" not in name} - {"pid", "reset", "slots"}
        wanted |= {f"{name}:{other}" for name, others in operations.OTHER_CALLS.items() for other in others}
        self.assertEqual(sorted(wanted - words), [])

    def test_what_is_not_an_operation_has_another_test(self):
        self.assertEqual(sorted(set(NOT_OPERATIONS) - hooked()), [], "is not hooked any more")
        for name, (reason, test, word) in NOT_OPERATIONS.items():
            with self.subTest(name):
                self.assertTrue(reason)
                self.assertTrue(word in (MODEL.parent / test).read_text(encoding="utf-8"), f"{test} has no {word}")

    def test_a_call_that_no_operation_makes_is_found(self):
        driver = Driver(["static void do_stat(void) {\n  say(CALL(stat)(path(1)));\n  if (is_other(\"lstat\")) lstat();\n}\n"
                         "static void do_pread_preadv(void) { preadv(); }\n"
                         "T t[] = {OPERATION(stat), VARIANT(pread, preadv), };\n"])
        self.assertIn("stat", driver.calls("stat"))
        self.assertNotIn("lstat", driver.calls("stat"))
        self.assertIn("lstat", driver.calls("stat:lstat"))
        self.assertIn("stat64", driver.calls("stat:stat64"))
        self.assertEqual(driver.calls("pread:preadv"), {"preadv"})
        with self.assertRaises(AssertionError):
            driver.calls("stat:statx")


if __name__ == "__main__":
    unittest.main()
