#!/usr/bin/env python3
"""Whether the data keeps up with the accelerator: a network alone, with PyTorch's DataLoader, and with Millrace.

    benchmarks/gpu/on_gpu.sh benchmarks/gpu/gpu_feeding.py     # builds the package, then runs this; needs a machine with a GPU
    benchmarks/gpu/gpu_feeding.py --device cpu --model tiny --batch 16 --seconds 5     # to check that it works

Trains a ResNet-50 in bf16 with batches of 256 on JPEGs of about 90 KB, with random resized crops to 224. Prints images
per second of the three, interleaved in one run, and their ratio to the network alone. The DataLoader gets its best
configuration: torchvision's decoder on tensors, pinned memory, persistent workers, and the best of several numbers of
workers."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import loader_peers  # noqa: E402


class Tiny(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Conv2d(3, 8, 7, stride=8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                         torch.nn.Flatten(), torch.nn.Linear(8, 1000))


class Trainer:
    """One training step on a batch of uint8 images. Everything before it is up to the loader."""

    def __init__(self, arguments):
        self.device = torch.device(arguments.device)
        if arguments.model == "tiny":
            network = Tiny()
        else:
            import torchvision
            network = torchvision.models.resnet50()
        self.network = network.to(self.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.loss = torch.nn.CrossEntropyLoss()
        self.mean = torch.tensor([123.7, 116.3, 103.5], device=self.device).view(1, 3, 1, 1)
        self.scale = torch.tensor([0.0171, 0.0175, 0.0174], device=self.device).view(1, 3, 1, 1)
        if arguments.compile:
            self.forward = torch.compile(self._forward)
        else:
            self.forward = self._forward

    def _forward(self, images, labels):
        with torch.autocast(self.device.type, torch.bfloat16):
            inputs = ((images.float() - self.mean) * self.scale).to(memory_format=torch.channels_last)
            return self.loss(self.network(inputs), labels)

    def step(self, images, labels):
        images = images.to(self.device, non_blocking=True)
        labels = labels.to(self.device, non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(images, labels).backward()
        self.optimizer.step()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def endless(loader):
    while True:
        yield from loader


def images_per_second(trainer, batches, seconds, warm_up):
    for _ in range(warm_up):
        trainer.step(*next(batches))
    trainer.wait()
    begin = time.perf_counter()
    count = 0
    while time.perf_counter() - begin < seconds:
        images, labels = next(batches)
        trainer.step(images, labels)
        count += len(images)
        if count % (20 * len(images)) == 0:
            trainer.wait()  # otherwise the queue of the GPU would hide who waits for whom
    trainer.wait()
    return count / (time.perf_counter() - begin)


def alone(arguments):
    images = torch.randint(0, 255, (arguments.batch, 3, 224, 224), dtype=torch.uint8)
    labels = torch.randint(0, 4, (arguments.batch,))
    device = torch.device(arguments.device)
    images, labels = images.to(device), labels.to(device)
    return endless([(images, labels)])


class DecodeAndCrop:
    def __init__(self):
        from torchvision import transforms
        self.change = transforms.Compose([transforms.RandomResizedCrop(224, antialias=True),
                                          transforms.RandomHorizontalFlip()])

    def __call__(self, path):
        from torchvision import io
        return self.change(io.decode_jpeg(io.read_file(path)))


def by_torch(arguments, workers):
    from torch.utils.data import DataLoader
    from torchvision import datasets
    data = datasets.ImageFolder(arguments.directory + "/jpeg", loader=DecodeAndCrop())
    return endless(DataLoader(data, arguments.batch, shuffle=True, num_workers=workers, drop_last=True,
                              persistent_workers=workers > 0, pin_memory=arguments.device == "cuda"))


def by_millrace(arguments, threads):
    import millrace
    data = millrace.ImageFolder(arguments.directory + "/jpeg", size=224, transform="random_resized_crop", flip=0.5,
                                dtype="uint8", layout="NCHW")
    return endless(millrace.DataLoader(data, arguments.batch, shuffle=True, drop_last=True, num_workers=threads,
                                       pin_memory=arguments.device == "cuda"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", choices=["resnet50", "tiny"], default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--jpegs", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="+", default=[os.cpu_count()])
    parser.add_argument("--threads", type=int, nargs="+", default=[os.cpu_count()])
    parser.add_argument("--compile", action="store_true", help="torch.compile the step")
    parser.add_argument("--keep", metavar="DIRECTORY", help="directory of the JPEGs; they are made there if it has none")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    arguments.directory = os.path.abspath(arguments.keep or tempfile.mkdtemp(prefix="millrace-gpu-"))
    try:
        if not os.path.exists(arguments.directory + "/jpeg"):
            loader_peers.make_jpegs(arguments.directory, arguments.jpegs)
        trainer = Trainer(arguments)
        cases = [("the network alone", lambda: alone(arguments))]
        cases += [("DataLoader, %d workers" % n, lambda n=n: by_torch(arguments, n)) for n in arguments.workers]
        cases += [("Millrace, %d threads" % n, lambda n=n: by_millrace(arguments, n)) for n in arguments.threads]
        best = {}
        for _ in range(arguments.rounds):
            for name, make in cases:
                rate = images_per_second(trainer, make(), arguments.seconds, warm_up=8)
                best[name] = max(best.get(name, 0), rate)
        limit = best["the network alone"]
        for name, rate in best.items():
            print("%-28s %8.0f images/s  %.2f of the network's own speed" % (name, rate, rate / limit))
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(best, file, indent=1)
    finally:
        if not arguments.keep:
            shutil.rmtree(arguments.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
