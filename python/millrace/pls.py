"""Partial local shuffling: every rank holds a shard, and exchanges part of it after every epoch.

    dataset = millrace.pls.ImageFolder("train", "classes.txt", transform, storage="/local/ssd")
    scheduler = millrace.pls.Scheduler(dataset, batch_size=64, fraction=0.1)
    loader = torch.utils.data.DataLoader(dataset, batch_size=64)
    for epoch in range(90):
        scheduler.scheduling(epoch)
        for images, labels in loader:
            send, receive = scheduler.communicate()     # returns at once
            ...
        scheduler.synchronize(send, receive)
        scheduler.clean_local_storage()

The first start copies this rank's shard of "train" into its storage; a later start continues with
what is there. A separate thread moves the encoded samples, spread over the iterations. Start several
ranks with mpirun or srun. See docs/guide/loader-python.md.

Python reads the samples one by one. `millrace.DataLoader(dataset, batch_size,
shuffle=millrace.Partial(dir="/local/ssd"))` does the same with batches that C++ reads and decodes.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Union

from millrace.loader import _outputs
from millrace.loader._native import native
from millrace.loader._ranks import close_at_exit, connect
from millrace.loader.datasets import IMAGE_EXTENSIONS, Image, PathLike


class ImageFolder:
    """The images that this rank holds in the current epoch, in the order of the epoch.

    root: a directory with one subdirectory of images per class, the same for all ranks.
    class_file: the names of the classes, one per line, in the order of their labels. By default the
        sorted names of the subdirectories.
    transform: a function of a PIL image, or a `millrace.Image`, which C++ decodes. By default samples
        are PIL images.
    storage: a directory on this host's disk. Each rank makes its own directory in it.
    """

    def __init__(self, root: PathLike, class_file: Optional[PathLike] = None,
                 transform: Union[Callable[[Any], Any], Image, None] = None, *,
                 storage: Optional[PathLike] = None) -> None:
        self._source = native.open_folder(os.fspath(root), list(IMAGE_EXTENSIONS), True)
        self.classes = _read_classes(class_file) or self._source.class_names
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        self._labels = _map_labels(self._source.class_names, self.class_to_idx, class_file)
        self._transform = transform
        self._decoder = transform.decoder() if isinstance(transform, Image) else None
        self.storage = Path(storage or os.environ.get("MILLRACE_STORAGE") or _default_storage(root))
        self._exchange: Any = None
        self._samples: list = []

    def __len__(self) -> int:
        return len(self._held())

    def __getitem__(self, index: int) -> tuple:
        sample = self._held()[index]
        data = self._exchange.read(sample)
        label = self._label(sample)
        if self._decoder is not None:
            arrays = self._decoder.decode_bytes(data, sample, self._exchange.epoch)
            return _outputs.converter(_outputs.choose(None))(next(iter(arrays.values()))), label
        return self._open_image(data), label

    @property
    def samples(self) -> list:
        """(path, label) of the samples that this rank holds now."""
        return [(self._source.name(sample), self._label(sample)) for sample in self._held()]

    def _label(self, sample: int) -> int:
        label = self._source.label(sample)
        assert label is not None  # every file is in the directory of a class
        return self._labels[label]

    def _open_image(self, data: bytes) -> Any:
        import io
        from PIL import Image as Pillow
        with Pillow.open(io.BytesIO(data)) as picture:
            image = picture.convert("RGB")
        return image if self._transform is None else self._transform(image)  # type: ignore[operator]

    def _held(self) -> list:
        if self._exchange is None:
            raise RuntimeError("make a millrace.pls.Scheduler of this dataset first: it determines "
                               "which samples this rank holds")
        return self._samples

    def _attach(self, exchange: Any) -> None:
        self._exchange = exchange
        self._samples = exchange.samples()


class Scheduler:
    """Exchanges a fraction of each rank's samples in every epoch.

    `fraction` and `seed` belong to the job: a storage made with others is refused. Every rank must
    make the scheduler, and call `scheduling` and `synchronize` the same number of times.
    """

    def __init__(self, dataset: ImageFolder, batch_size: int, fraction: float = 0.1,
                 seed: int = 0) -> None:
        connect()
        self._dataset = dataset
        self._exchange = native.Exchange(dataset._source, str(dataset.storage), float(fraction), seed)
        close_at_exit(self._exchange)
        dataset._attach(self._exchange)
        self.batch_size = batch_size
        self._iteration = 0
        self._is_under_way = False

    @property
    def epoch(self) -> int:
        """The epoch of the samples that are held now."""
        return self._exchange.epoch

    @property
    def iterations(self) -> int:
        """The number of iterations per epoch of this rank."""
        return -(-len(self._dataset) // self.batch_size)

    def scheduling(self, epoch: int) -> None:
        """Begins the epoch and its exchange. All ranks derive the same plan from the seed."""
        if epoch != self.epoch:
            raise ValueError(f"the storage holds the samples of epoch {self.epoch}, not of {epoch}. "
                             f"Continue with scheduling({self.epoch}), or start with an empty "
                             "storage")
        connect()  # raises if torch.distributed, initialized since then, has other ranks than MPI
        self._exchange.start()
        self._iteration = 0
        self._is_under_way = True

    def communicate(self) -> tuple:
        """Call it after every iteration: it lets the next part of the exchange start. Returns at once,
        with the arguments for `synchronize`."""
        if not self._is_under_way:
            raise RuntimeError("call scheduling(epoch) before communicate()")
        self._iteration += 1
        count = max(self.iterations, 1)
        self._exchange.advance(min(self._iteration, count), count)
        return ["send"], ["receive"]

    def synchronize(self, send: Any = None, receive: Any = None) -> None:
        """Waits for the rest of the exchange on all ranks. Then the dataset holds the samples of the
        next epoch."""
        if not self._is_under_way:
            raise RuntimeError("call scheduling(epoch) before synchronize()")
        self._is_under_way = False
        self._exchange.finish()
        self._dataset._attach(self._exchange)

    def clean_local_storage(self) -> None:
        """Does nothing; it exists because the published interface has it. The space of samples that
        left is reused, and at most (1 + fraction) of a rank's shard is stored."""

    def stats(self) -> dict:
        """What was exchanged, and the share of it that overlapped with training (`overlapped_share`)."""
        return self._exchange.stats()

    def close(self) -> None:
        self._exchange.close()


def _default_storage(root: PathLike) -> str:
    import hashlib
    import tempfile
    name = hashlib.sha256(os.path.abspath(root).encode()).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"millrace-{os.getuid()}-{name}")


def _read_classes(class_file: Optional[PathLike]) -> list:
    if class_file is None:
        return []
    with open(class_file, encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def _map_labels(names: list, class_to_idx: dict, class_file: Optional[PathLike]) -> list:
    missing = [name for name in names if name not in class_to_idx]
    if missing:
        raise ValueError(f"{class_file} does not list the class '{missing[0]}', but there is a "
                         "directory for it. Add it, one class per line")
    return [class_to_idx[name] for name in names]
