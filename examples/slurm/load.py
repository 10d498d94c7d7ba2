"""Takes epochs of an image folder, as a training would: with a checkpoint after each epoch, from which the next run goes on.

    srun --mpi=pmix python3 load.py SHARED/train --local-dir /local/samples --state SHARED/state.json
"""

import argparse
import json
import os
import socket
from pathlib import Path

import millrace

parser = argparse.ArgumentParser()
parser.add_argument("dataset", help="a directory for each class, with JPEG and PNG files, on the shared file system")
parser.add_argument("--local-dir", help="a directory on each node's own disk, to keep samples in")
parser.add_argument("--state", type=Path, help="a file on the shared file system, for the state of the loader")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=8)
options = parser.parse_args()

data = millrace.ImageFolder(options.dataset, size=64)
# Rank and world size come from srun or torchrun.
loader = millrace.DataLoader(data, options.batch_size, shuffle="partial", fraction=0.1, epochs=options.epochs,
                             local_dir=options.local_dir)
name = f"rank {loader.world.rank} of {loader.world.size} on {socket.gethostname()}"
first = 0
if options.state is not None and options.state.exists():
    # With local_dir all ranks load the same state, and wait for each other.
    state = json.loads(options.state.read_text())
    loader.load_state_dict(state["loader"])
    first = state["epoch"]
    print(f"{name}: goes on with epoch {first}", flush=True)

for epoch in range(first, options.epochs):
    count = 0
    for images, labels in loader:
        count += sum(loader.batch.is_real.tolist())  # the training step would stand here
    print(f"{name}: {count} samples in epoch {epoch}", flush=True)
    if options.state is not None and loader.world.rank == 0:
        # First whole, then under its name: a killed job leaves the old state or the new one.
        half = options.state.with_name(options.state.name + ".half")
        half.write_text(json.dumps({"epoch": epoch + 1, "loader": loader.state_dict()}))
        os.replace(half, options.state)

if options.local_dir is not None:
    local = loader.stats()["local"]
    print(f"{name}: holds {local['held_samples']} samples, copied {local['staged_samples']} from the dataset, "
          f"sent {local['samples_sent']} to other ranks", flush=True)
