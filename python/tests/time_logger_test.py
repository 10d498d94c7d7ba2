#!/usr/bin/env python3
"""TimeLogger: rows of nine fields, from calls and `with` blocks, on several threads, as CSV and JSON."""

import csv
import json
import os
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from millrace.trace import TimeLogger

FIELDS = ("epoch", "rank", "caller", "action", "start", "end", "duration", "process", "thread")


class TimeLoggerTest(unittest.TestCase):
    def test_a_row_has_the_nine_fields(self):
        logger = TimeLogger(rank=3)
        logger.set_epoch(2)
        logger.start_timer("read")
        row = logger.end_timer("read")
        self.assertEqual(row._fields, FIELDS)
        self.assertEqual(row[:2], (2, 3))
        self.assertIn("test_a_row_has_the_nine_fields", row.caller)
        self.assertEqual(row[7:], (os.getpid(), threading.get_native_id()))
        self.assertAlmostEqual(row.end - row.start, row.duration, delta=1e-5)
        self.assertEqual(logger.rows, [row])

    def test_an_action_may_be_nested_in_itself_and_have_its_own_epoch_and_caller(self):
        logger = TimeLogger()
        with logger.timer("read", epoch=5, caller="loader"), logger.timer("read"):
            pass
        inner, outer = logger.rows
        self.assertEqual((outer.epoch, outer.caller, inner.epoch), (5, "loader", 0))
        self.assertTrue(outer.start <= inner.start and inner.duration <= outer.duration)

    def test_a_block_ends_its_timer_when_it_fails(self):
        logger = TimeLogger()
        with self.assertRaises(KeyError), logger.timer("read"):
            raise KeyError
        self.assertEqual(len(logger.rows), 1)

    @staticmethod
    def in_a_thread(function, *arguments):
        """What the function raises as a ValueError, or None."""
        raised = []

        def run():
            try:
                function(*arguments)
            except ValueError as error:
                raised.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return raised[0] if raised else None

    def test_a_timer_belongs_to_its_thread(self):
        logger = TimeLogger()
        logger.start_timer("read")
        self.assertIn("the timer 'read' was not started on this thread", self.in_a_thread(logger.end_timer, "read"))
        self.assertEqual(logger.end_timer("read").action, "read")

    def test_a_timer_of_a_thread_that_has_ended_is_not_the_next_thread_s(self):
        logger = TimeLogger()
        for _ in range(20):  # the second thread usually gets the number of the first
            self.assertIsNone(self.in_a_thread(logger.start_timer, "read"))
            self.assertIsNotNone(self.in_a_thread(logger.end_timer, "read"))

    def test_a_disabled_logger_keeps_nothing(self):
        logger = TimeLogger(enabled=False)
        with logger.timer("read"):
            pass
        self.assertIsNone(logger.end_timer("never started"))
        self.assertEqual(logger.rows, [])

    def test_the_rank_comes_from_the_launcher(self):
        with mock.patch.dict(os.environ, {"OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "8"},
                             clear=True):
            self.assertEqual(TimeLogger().rank, 4)
        with mock.patch.dict(os.environ, {"RANK": "x", "WORLD_SIZE": "8"}, clear=True):
            self.assertEqual(TimeLogger().rank, 0)

    def test_files_hold_every_row(self):
        logger = TimeLogger(rank=1)
        for action in ("read", "with \"quotes\", and commas"):
            with logger.timer(action, caller="here"):
                pass
        with tempfile.TemporaryDirectory() as folder:
            logger.write_csv(Path(folder) / "t.csv")
            logger.write_json(Path(folder) / "t.json")
            with open(Path(folder) / "t.csv", newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            objects = json.loads((Path(folder) / "t.json").read_text())
        self.assertEqual([row["action"] for row in rows], [row.action for row in logger.rows])
        self.assertEqual([float(row["duration"]) for row in rows],
                         [row.duration for row in logger.rows])
        self.assertEqual(tuple(rows[0]), FIELDS)
        self.assertEqual(objects, [row._asdict() for row in logger.rows])


if __name__ == "__main__":
    unittest.main()
