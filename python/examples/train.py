"""Trains a small network on a directory of images: one file per sample, in a new order every epoch.

By default, Python code reads and collates the samples, as usual. With --millrace, Millrace's loader does. Regions
(`millrace.trace`) mark what the program does. They are optional: without a recorder they do nothing, and I/O is
recorded without them too.
"""
import argparse
import contextlib
import math
import pathlib
import time

import numpy

try:
    from millrace import trace
except ImportError:  # the program also runs without Millrace
    trace = None


def region(name: str, **tags):
    return trace.region(name, **tags) if trace else contextlib.nullcontext()


class ImageDirectory:
    """One directory per class, one file per sample."""

    def __init__(self, directory: pathlib.Path) -> None:
        classes = sorted(path for path in directory.iterdir() if path.is_dir())
        self.samples = [(path, label) for label, folder in enumerate(classes) for path in sorted(folder.iterdir())]
        self.class_count = len(classes)

    def __getitem__(self, index: int) -> tuple[numpy.ndarray, int]:
        path, label = self.samples[index]
        with region("read"):
            pixels = numpy.load(path)
        with region("transform"):
            return pixels.astype(numpy.float32).reshape(-1) / 255 - 0.5, label


class Network:
    """Two layers, trained with stochastic gradient descent."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        random = numpy.random.default_rng(0)
        self.first = random.normal(0, inputs**-0.5, (inputs, hidden)).astype(numpy.float32)
        self.second = random.normal(0, hidden**-0.5, (hidden, outputs)).astype(numpy.float32)

    def step(self, inputs: numpy.ndarray, labels: numpy.ndarray, lr: float) -> float:
        hidden = numpy.maximum(inputs @ self.first, 0)
        scores = hidden @ self.second
        scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        shares = scores / scores.sum(axis=1, keepdims=True)
        rows = numpy.arange(len(labels))
        loss = float(-numpy.log(shares[rows, labels] + 1e-9).mean())
        shares[rows, labels] -= 1
        shares /= len(labels)
        back = (shares @ self.second.T) * (hidden > 0)
        self.second -= lr * (hidden.T @ shares)
        self.first -= lr * (inputs.T @ back)
        return loss


class UsualBatches:
    """The usual loop: read, transform and collate one sample after another, then train."""

    def __init__(self, directory: pathlib.Path, batch_size: int) -> None:
        self.dataset = ImageDirectory(directory)
        self.batch_size = batch_size
        self.class_count = self.dataset.class_count
        self.input_size = len(self.dataset[0][0])

    def epoch(self, epoch: int):
        order = numpy.random.default_rng(epoch).permutation(len(self.dataset.samples))
        for step, first in enumerate(range(0, len(order), self.batch_size)):
            with region("fetch", epoch=epoch, step=step):
                batch = [self.dataset[index] for index in order[first : first + self.batch_size]]
                with region("collate"):
                    inputs = numpy.stack([pixels for pixels, _ in batch])
                    labels = numpy.array([label for _, label in batch])
            yield inputs, labels


class MillraceBatches:
    """The same samples, prefetched by threads while the network trains. The loader marks its regions itself."""

    def __init__(self, directory: pathlib.Path, batch_size: int, epochs: int) -> None:
        import millrace
        dataset = millrace.ArrayFolder(directory)
        self.class_count = len(dataset.classes)
        self.loader = millrace.DataLoader(dataset, batch_size, shuffle=True, epochs=epochs, output="numpy")
        _, _, shape = dataset.fields[0]
        self.input_size = math.prod(shape)

    def epoch(self, epoch: int):
        self.loader.set_epoch(epoch)
        for step, (pixels, labels) in enumerate(self.loader):
            with region("transform", epoch=epoch, step=step):
                inputs = pixels.reshape(len(pixels), -1).astype(numpy.float32) / 255 - 0.5
            yield inputs, labels


def train_epoch(epoch: int, batches: "UsualBatches | MillraceBatches", network: Network, lr: float) -> float:
    losses = []
    for step, (inputs, labels) in enumerate(batches.epoch(epoch)):
        with region("compute", epoch=epoch, step=step):
            losses.append(network.step(inputs, labels, lr))
    return sum(losses) / len(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--checkpoint", type=pathlib.Path, help="file to save the network to after each epoch")
    parser.add_argument("--millrace", action="store_true", help="load the samples with Millrace")
    arguments = parser.parse_args()
    if arguments.checkpoint and arguments.checkpoint.suffix != ".npz":
        parser.error(f"--checkpoint {arguments.checkpoint}: its name must end in .npz, which numpy would add")
    with region("setup"):
        if arguments.millrace:
            batches = MillraceBatches(arguments.directory, arguments.batch, arguments.epochs)
        else:
            batches = UsualBatches(arguments.directory, arguments.batch)
        network = Network(batches.input_size, arguments.hidden, batches.class_count)
    for epoch in range(arguments.epochs):
        begin = time.perf_counter()
        with region("epoch", epoch=epoch):
            loss = train_epoch(epoch, batches, network, arguments.lr)
        print(f"epoch {epoch}: loss {loss:.3f}, {time.perf_counter() - begin:.2f} s")
        if arguments.checkpoint:
            with region("checkpoint", epoch=epoch):
                numpy.savez(arguments.checkpoint, first=network.first, second=network.second)


if __name__ == "__main__":
    main()
