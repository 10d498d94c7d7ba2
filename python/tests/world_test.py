#!/usr/bin/env python3
"""The rank and the number of ranks, as given by launchers."""

import os
import tempfile
import unittest
from unittest import mock

from millrace.loader._options import shards
from millrace.loader._world import World


class WorldTest(unittest.TestCase):
    def test_without_a_launcher_there_is_one_rank(self):
        self.assertEqual(World.of_environment({}), World(0, 1))

    def test_every_launcher_is_understood(self):
        for environment in (
                {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8",
                 "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
                {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"},
                {"MV2_COMM_WORLD_RANK": "5", "MV2_COMM_WORLD_SIZE": "8",
                 "MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "4"},
                {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
                {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1",
                 "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}):
            with self.subTest(environment):
                self.assertEqual(World.of_environment(environment), World(5, 8, 1, 4))

    def test_the_script_of_a_batch_job_is_a_single_rank(self):
        environment = {"SLURM_PROCID": "0", "SLURM_NTASKS": "64", "SLURM_LOCALID": "0"}
        self.assertEqual(World.of_environment(environment), World(0, 1))

    def test_srun_with_pmi_gives_the_local_rank(self):
        environment = {"PMI_RANK": "5", "PMI_SIZE": "8", "SLURM_PROCID": "5",
                       "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1",
                       "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
        self.assertEqual(World.of_environment(environment), World(5, 8, 1, 4))

    def test_under_srun_only_mpirun_gives_the_local_rank(self):
        environment = {"PMI_RANK": "5", "PMI_SIZE": "8", "SLURM_PROCID": "1",
                       "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0",
                       "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
        self.assertEqual(World.of_environment(environment), World(5, 8))

    def test_slurm_nodes_of_different_sizes_have_no_local_rank(self):
        environment = {"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "7", "SLURM_LOCALID": "0",
                       "SLURM_STEP_TASKS_PER_NODE": "2(x3),1"}
        self.assertEqual(World.of_environment(environment), World(6, 7, 0, 1))

    def test_torchrun_under_srun_wins(self):
        environment = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "3",
                       "WORLD_SIZE": "16", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8",
                       "TORCHELASTIC_RUN_ID": "x"}
        self.assertEqual(World.of_environment(environment), World(3, 16, 3, 8))

    def test_torchrun_under_mpirun_wins(self):
        environment = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "1",
                       "RANK": "3", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
                       "TORCHELASTIC_RUN_ID": "x"}
        self.assertEqual(World.of_environment(environment), World(3, 6, 1, 2))

    def test_srun_adds_what_pmix_does_not_say(self):
        environment = {"PMIX_RANK": "5", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8",
                       "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
        self.assertEqual(World.of_environment(environment), World(5, 8, 1, 4))

    def test_mpirun_wins_over_variables_exported_by_hand(self):
        environment = {"RANK": "0", "WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "1",
                       "OMPI_COMM_WORLD_SIZE": "2"}
        self.assertEqual(World.of_environment(environment), World(1, 2))

    def test_invalid_values_are_named(self):
        with self.assertRaisesRegex(ValueError, "RANK='x'"):
            World.of_environment({"RANK": "x", "WORLD_SIZE": "2"})
        with self.assertRaisesRegex(ValueError, "rank 2 of 2"):
            World.of_environment({"RANK": "2", "WORLD_SIZE": "2"})

    def test_torch_distributed_is_asked_first(self):
        import torch
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store",
                                                 rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            with mock.patch.dict(os.environ, {"RANK": "3", "WORLD_SIZE": "4"}):
                self.assertEqual(World.find(), World(0, 1))

    def test_the_ranks_of_a_node_share_its_shard(self):
        # Two nodes of three ranks: of any six consecutive positions, a node visits those of its own
        # shard.
        places = {rank: shards(World(rank, 6, rank % 3, 3), "node") for rank in range(6)}
        self.assertEqual({count for count, _ in places.values()}, {2})
        self.assertEqual(sorted(place for _, place in places.values()), list(range(6)))
        for rank, (_, place) in places.items():
            self.assertEqual(place % 2, rank // 3)

    def test_with_both_the_shards_of_a_nodes_ranks_are_consecutive(self):
        # The second node numbers its ranks in reverse: its part is still contiguous.
        worlds = [World(rank, 6, rank % 3 if rank < 3 else 5 - rank, 3) for rank in range(6)]
        self.assertEqual([shards(world, "both") for world in worlds],
                         [(0, place) for place in (0, 1, 2, 5, 4, 3)])

    def test_uneven_nodes_are_refused(self):
        with self.assertRaisesRegex(ValueError, "same number of ranks"):
            shards(World(0, 5, 0, 2), "node")


if __name__ == "__main__":
    unittest.main()
