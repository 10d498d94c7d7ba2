"""Trains a small network on a directory of images the usual way: a file a sample, in a new order every epoch.

The regions (`millrace.trace`) say what happens; without a recorder they do nothing, and the program does not need
them: the I/O is recorded either way.
"""
import argparse
import contextlib
import pathlib

import numpy

try:
    from millrace import trace
except ImportError:  # the program runs without Millrace as well
    trace = None


def region(name: str, **tags):
    return trace.region(name, **tags) if trace else contextlib.nullcontext()


class ImageDirectory:
    """A directory a class, a file a sample."""

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
    """Two layers, by stochastic gradient descent."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        random = numpy.random.default_rng(0)
        self.first = random.normal(0, inputs**-0.5, (inputs, hidden)).astype(numpy.float32)
        self.second = random.normal(0, hidden**-0.5, (hidden, outputs)).astype(numpy.float32)

    def step(self, inputs: numpy.ndarray, labels: numpy.ndarray, rate: float) -> float:
        hidden = numpy.maximum(inputs @ self.first, 0)
        scores = hidden @ self.second
        scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        shares = scores / scores.sum(axis=1, keepdims=True)
        rows = numpy.arange(len(labels))
        loss = float(-numpy.log(shares[rows, labels] + 1e-9).mean())
        shares[rows, labels] -= 1
        shares /= len(labels)
        back = (shares @ self.second.T) * (hidden > 0)
        self.second -= rate * (hidden.T @ shares)
        self.first -= rate * (inputs.T @ back)
        return loss


def train_epoch(epoch: int, dataset: ImageDirectory, network: Network, batch_size: int, rate: float) -> float:
    order = numpy.random.default_rng(epoch).permutation(len(dataset.samples))
    losses = []
    for step, first in enumerate(range(0, len(order), batch_size)):
        with region("fetch", epoch=epoch, step=step):
            batch = [dataset[index] for index in order[first : first + batch_size]]
            with region("collate"):
                inputs = numpy.stack([pixels for pixels, _ in batch])
                labels = numpy.array([label for _, label in batch])
        with region("compute", epoch=epoch, step=step):
            losses.append(network.step(inputs, labels, rate))
    return sum(losses) / len(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--checkpoint", type=pathlib.Path, help="where to keep the network after each epoch")
    arguments = parser.parse_args()
    with region("setup"):
        dataset = ImageDirectory(arguments.directory)
        network = Network(len(dataset[0][0]), arguments.hidden, dataset.class_count)
    for epoch in range(arguments.epochs):
        with region("epoch", epoch=epoch):
            loss = train_epoch(epoch, dataset, network, arguments.batch, arguments.rate)
        print(f"epoch {epoch}: loss {loss:.3f}")
        if arguments.checkpoint:
            with region("checkpoint", epoch=epoch):
                numpy.savez(arguments.checkpoint, first=network.first, second=network.second)


if __name__ == "__main__":
    main()
