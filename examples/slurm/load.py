"""Iterates over an image folder like a training job: saves its state after each epoch, and the next run continues there.

    srun --mpi=pmix python3 load.py SHARED/train --shard-dir /local/samples --state SHARED/state.json
"""

import argparse
import json
import os
import socket
from pathlib import Path

import millrace

parser = argparse.ArgumentParser()
parser.add_argument("dataset", help="directory on the shared file system with one subdirectory of JPEG and PNG files per class")
parser.add_argument("--shard-dir", help="directory on each node's own disk for the samples of its ranks")
parser.add_argument("--state", type=Path, help="file for the loader's state, on the shared file system")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=8)
options = parser.parse_args()

data = millrace.ImageFolder(options.dataset, size=64)
# Rank and world size come from srun or torchrun.
loader = millrace.DataLoader(data, options.batch_size, epochs=options.epochs,
                             shuffle=millrace.Partial(fraction=0.1, dir=options.shard_dir))
name = f"rank {loader.world.rank} of {loader.world.size} on {socket.gethostname()}"
first = 0
if options.state is not None and options.state.exists():
    # With a directory for shards, all ranks must load the same state; they wait for each other.
    state = json.loads(options.state.read_text())
    loader.load_state_dict(state["loader"])
    first = state["epoch"]
    print(f"{name}: continues with epoch {first}", flush=True)

for epoch in range(first, options.epochs):
    count = 0
    for images, labels in loader:
        count += sum(loader.batch.is_real.tolist())  # a training job would do its step here
    print(f"{name}: {count} samples in epoch {epoch}", flush=True)
    if options.state is not None and loader.world.rank == 0:
        # Write it completely, then rename it: a killed job leaves either the old state or the new one.
        half = options.state.with_name(f".{options.state.name}.{os.getpid()}")
        with open(half, "x") as file:
            json.dump({"epoch": epoch + 1, "loader": loader.state_dict()}, file)
        os.replace(half, options.state)

if options.shard_dir is not None:
    shard = loader.stats()["shard"]
    print(f"{name}: holds {shard['held_samples']} samples, copied {shard['staged_samples']} from the dataset, "
          f"sent {shard['samples_sent']} to other ranks", flush=True)
