"""`millrace bench --real-loader torch`: PyTorch's DataLoader over the dataset of a workload.

The program passes the workload as a JSON file and reads one JSON object from standard output. Steps are those of the
emulation: wait for a batch, sleep for the compute time. So the two can be compared (docs/guide/bench.md).
"""

import json
import os
import sys
import time


def read_npz(path, sample, samples):
    import numpy
    with numpy.load(path) as file:
        array = file["x"]
    return array[..., sample] if samples > 1 else array


def read_npy(path, sample, samples):
    import numpy
    array = numpy.load(path)
    return array[..., sample] if samples > 1 else array


def read_hdf5(path, sample, samples):
    import h5py
    with h5py.File(path) as file:
        name = "records_0" if "records_0" in file else next(name for name in file if name != "labels")
        return file[name][sample]


def read_image(path, sample, samples):
    import numpy
    from PIL import Image
    with Image.open(path) as image:
        return numpy.asarray(image)


def read_bytes(path, sample, samples):
    import numpy
    return numpy.fromfile(path, numpy.uint8)


# Readers that notice a damaged file. Bytes of other formats, such as TFRecord, would pass unchecked.
READERS = {"npz": read_npz, "npy": read_npy, "hdf5": read_hdf5, "jpeg": read_image, "png": read_image,
           "raw": read_bytes}


class Files:
    """A map-style dataset. An item is one element of its sample, as in the emulation."""

    def __init__(self, job):
        self.paths = job["paths"]
        self.samples = job["samples_per_file"]
        if job["format"] not in READERS:
            raise SystemExit(f"--real-loader reads {', '.join(READERS)}, but the format is {job['format']}. "
                             "Give --loader pytorch instead, or choose one of these formats")
        self.read = READERS[job["format"]]
        self.file_bytes = job["file_bytes"] if job["format"] == "raw" else 0  # raw has no structure but its length

    def __len__(self):
        return len(self.paths) * self.samples

    def __getitem__(self, index):
        path = self.paths[index // self.samples]
        array = self.read(path, index % self.samples, self.samples)
        if not array.size:
            raise ValueError(f"{path}: the sample is empty")
        if self.file_bytes and array.size != self.file_bytes:
            raise ValueError(f"{path}: has {array.size} bytes, but {self.file_bytes} were generated")
        return int(array.reshape(-1)[0])


def run(job):
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"--real-loader torch needs PyTorch, but {sys.executable} says: {error}. "
                         "Install it there, or set MILLRACE_PYTHON to a Python that has it") from None

    generator = torch.Generator()
    generator.manual_seed(job["seed"])
    workers = job["read_threads"]
    loader = torch.utils.data.DataLoader(
        Files(job), batch_size=job["batch_size"], shuffle=job["shuffle"], generator=generator, num_workers=workers,
        prefetch_factor=job["prefetch_size"] if workers else (2 if torch.__version__.startswith("1.") else None))
    passes = []
    for epoch in range(job["epochs"]):
        steps, samples = [], 0
        begin = end = time.monotonic()
        batches = iter(loader)
        while True:
            before = time.monotonic()
            batch = next(batches, None)
            if batch is None or (job["steps"] and len(steps) >= job["steps"]):
                break
            waited = time.monotonic() - before
            time.sleep(job["compute_seconds"])
            now = time.monotonic()
            steps.append((waited, now - end))
            end = now
            samples += len(batch)
        kept = steps[job["exclude_start_steps"]:]
        whole = sum(step[1] for step in kept)
        seconds = end - begin
        passes.append({"epoch": epoch + 1, "steps": len(steps), "samples": samples, "seconds": seconds,
                       "au": len(kept) * job["compute_seconds"] / whole if whole else 0,
                       "samples_per_second": samples / seconds if seconds else 0,
                       "first_batch_seconds": steps[0][0] if steps else 0,
                       "wait_seconds": sum(step[0] for step in steps)})
    return {"loader": f"PyTorch {torch.__version__}", "passes": passes}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    json.dump(run(job), sys.stdout)
    print(flush=True)
    os._exit(0)  # torch's threads need not end one by one


if __name__ == "__main__":
    main()
