#!/usr/bin/env python3
"""Tests of the transcript runner: it must detect differences, or every transcript would pass."""

import os
import unittest

import transcript

os.environ.setdefault("MILLRACE", "/bin/true")


class TranscriptTest(unittest.TestCase):
    def failures_of(self, text: str) -> list[str]:
        return transcript.run(transcript.parse(text))

    def test_a_correct_transcript_has_no_failures(self):
        self.assertEqual(self.failures_of("# c\n\n$ echo a; echo b >&2; exit 3\n> a\n! b\n? 3\n"), [])

    def test_wrong_output_error_and_exit_code_are_each_detected(self):
        self.assertEqual(len(self.failures_of("$ echo a\n> b\n")), 1)
        self.assertEqual(len(self.failures_of("$ echo a >&2\n")), 1)
        self.assertEqual(len(self.failures_of("$ exit 1\n")), 1)
        self.assertEqual(len(self.failures_of("$ echo a; exit 1\n? 2\n")), 2)

    def test_missing_and_extra_lines_are_detected(self):
        self.assertEqual(len(self.failures_of("$ echo a\n> a\n> b\n")), 1)
        self.assertEqual(len(self.failures_of("$ printf 'a\\nb\\n'\n> a\n")), 1)

    def test_wildcards_match_only_within_a_line_or_whole_lines(self):
        self.assertEqual(self.failures_of("$ printf 'x 12 y\\nb\\nc\\n'\n> x ... y\n> ...\n> c\n"), [])
        self.assertEqual(len(self.failures_of("$ printf 'x\\ny\\n'\n> x...y\n")), 1)

    def test_other_characters_match_literally(self):
        self.assertEqual(len(self.failures_of("$ echo abc\n> a.c\n")), 1)

    def test_an_unknown_mark_is_refused(self):
        with self.assertRaises(SystemExit):
            transcript.parse("$ true\n= 3\n")


if __name__ == "__main__":
    unittest.main()
