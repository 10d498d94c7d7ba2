#!/usr/bin/env python3
"""Loaders that were made before torch.distributed knew the ranks, in processes that share a real group."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import numpy

RANKS = 2
COUNT = 23
HEAD = """
    import json, sys
    import torch
    import millrace

    rank, folder = int(sys.argv[1]), sys.argv[2]

    class Numbers:
        def __len__(self): return 23
        def __getitem__(self, index): return index

    def twice(sample):
        return 2 * sample

    def data(**options):
        return millrace.Files(folder + "/numbers.npy", **options)

    def join():
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank,
                                             world_size=2)

    def rows(batch):
        values = [values if isinstance(values, list) else values.tolist() for values in (batch.samples, batch.is_real)]
        return [[int(sample), bool(is_real)] for sample, is_real in zip(*values)]

    def visited(loader, batches=None):
        return sum((rows(loader.batch) for _ in batches or loader), [])

    def failure(function):
        try:
            function()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "no error"
    """


class LateRanks(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        numpy.save(self.folder / "numbers.npy", numpy.arange(COUNT))

    def run_ranks(self, program: str) -> list:
        """What each rank printed. As after torch.multiprocessing.spawn, the environment has no ranks."""
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(HEAD) + textwrap.dedent(program))
        ranks = [subprocess.Popen([sys.executable, str(path), str(rank), str(self.folder)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
                 for rank in range(RANKS)]
        printed = []
        for rank in ranks:
            out, errors = rank.communicate()
            self.assertEqual(rank.returncode, 0, errors)
            printed.append(json.loads(out.splitlines()[-1]))
        return printed

    def assert_shared(self, visited: list, count: int = COUNT):
        """Every sample once, divided evenly among the ranks; padding fills the last step."""
        real = [sample for rank in visited for sample, is_real in rank if is_real]
        self.assertEqual(sorted(real), list(range(count)))
        self.assertEqual(len({len(rank) for rank in visited}), 1)

    def test_a_loader_follows_the_ranks_until_its_first_batch(self):
        first, second = self.run_ranks("""
            loaders = {"C++": millrace.DataLoader(data(), batch_size=4, shuffle=True),
                       "map": millrace.DataLoader(data(map=twice), batch_size=4, shuffle=True, num_workers=1),
                       "Python": millrace.DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1),
                       "local": millrace.DataLoader(Numbers(), batch_size=4, shuffle="local", num_workers=0)}
            before = {name: len(loader) for name, loader in loaders.items()}
            join()
            after = {name: len(loader) for name, loader in loaders.items()}
            seen = {name: [visited(loader), visited(loader)] for name, loader in loaders.items()}
            made_now = visited(millrace.DataLoader(data(), batch_size=4, shuffle=True))
            print(json.dumps({"before": before, "after": after, "seen": seen, "made_now": made_now}))
            """)
        for name in ("C++", "map", "Python", "local"):
            with self.subTest(name):
                self.assertEqual((first["before"][name], first["after"][name]), (6, 3))
                for epoch in range(2):
                    self.assert_shared([first["seen"][name][epoch], second["seen"][name][epoch]])
        # Exactly as if it had been made afterwards.
        for rank in (first, second):
            self.assertEqual(rank["seen"]["C++"][0], rank["made_now"])

    def test_a_loaded_state_an_epoch_and_an_iterator_stay(self):
        states = self.run_ranks("""
            whole = millrace.DataLoader(data(), batch_size=5, shuffle=True)
            batches = iter(whole)
            next(batches), next(batches)
            resumed = millrace.DataLoader(data(), batch_size=4, shuffle=True)
            resumed.load_state_dict(whole.state_dict())
            chosen = millrace.DataLoader(data(), batch_size=4, shuffle=True)
            chosen.set_epoch(3)
            begun = millrace.DataLoader(data(), batch_size=4, shuffle=True)
            iterator = iter(begun)
            join()
            seen = [visited(resumed), visited(chosen)]
            epoch = chosen.batch.epoch
            seen.append(visited(begun, iterator))
            print(json.dumps({"seen": seen, "epoch": epoch, "len": len(whole)}))
            """)
        self.assertEqual({rank["epoch"] for rank in states}, {3})
        self.assert_shared([rank["seen"][1] for rank in states])
        self.assert_shared([rank["seen"][2] for rank in states])
        # 10 of 23 samples were done, so that the ranks share 13.
        real = [sample for rank in states for sample, is_real in rank["seen"][0] if is_real]
        self.assertEqual((len(real), len(set(real))), (13, 13))

    def test_after_the_first_batch_another_rank_is_an_error(self):
        for rank, told in enumerate(self.run_ranks("""
                loader = millrace.DataLoader(data(), batch_size=4)
                begun = millrace.DataLoader(data(), batch_size=4)
                next(iter(loader))
                batches = iter(begun)
                next(batches)
                join()
                print(json.dumps([failure(lambda: next(iter(loader))), len(loader),
                                  failure(lambda: next(batches))]))
                """)):
            with self.subTest(rank=rank):
                self.assertRegex(told[0], f"RuntimeError: the loader is rank 0 of 1, but in torch.distributed this "
                                          rf"process is rank {rank} of 2.*Make the DataLoader after")
                self.assertEqual(told[1], 6)
                self.assertEqual(told[2], "no error")  # the pass goes on; the next one is refused

    def test_a_world_that_was_given_stays(self):
        first, second = self.run_ranks("""
            given = millrace.DataLoader(data(), batch_size=4, world=millrace.World(0, 1))
            join()
            print(json.dumps(visited(given)))
            """)
        self.assertEqual(first, second)
        self.assertEqual(len(first), COUNT)

    def test_ranks_that_mpi_does_not_know_do_not_exchange_samples(self):
        for name in ("cat", "dog"):
            (self.folder / "images" / name).mkdir(parents=True)
            (self.folder / "images" / name / "0.png").write_bytes(b"not read")
        for rank, told in enumerate(self.run_ranks("""
                data = millrace.pls.ImageFolder(f"{folder}/images", storage=f"{folder}/storage-{rank}")
                scheduler = millrace.pls.Scheduler(data, batch_size=1)
                join()
                print(json.dumps(failure(lambda: scheduler.scheduling(0))))
                """)):
            self.assertRegex(told, f"RuntimeError: this is rank {rank} of 2, but MPI has 1 rank.*mpirun")

    def test_what_is_for_one_rank_only_is_refused(self):
        for told in self.run_ranks("""
                batches = [[0, 1], [2, 3], [4]]
                loader = millrace.DataLoader(Numbers(), batch_sampler=batches)
                peers = millrace.DataLoader(data(), cache=millrace.Cache("1MiB", peers=True))
                join()
                print(json.dumps([failure(lambda: next(iter(loader))), failure(lambda: next(iter(peers)))]))
                """):
            self.assertRegex(told[0], "ValueError: batch_sampler=list: ranks take turns")
            self.assertRegex(told[1], "RuntimeError: Cache.peers: the loader is rank 0 of 1, but in "
                                      "torch.distributed.*mpirun")


if __name__ == "__main__":
    unittest.main()
