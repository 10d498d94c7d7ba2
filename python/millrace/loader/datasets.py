"""Datasets that C++ reads and decodes: folders of images, folders of arrays, files of many samples.

Each is a map-style dataset as well: `dataset[i]` is sample i, decoded as in a batch of epoch 0.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from millrace.loader import _outputs
from millrace.loader._native import native
from millrace.loader._torch_options import is_subset

PathLike = Union[str, "os.PathLike[str]"]
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Image:
    """How encoded images (JPEG, PNG) become pixels of one size.

    size: of the result, in pixels; one number, or (height, width).
    transform: "random_resized_crop", a random part to the size; "resize_center_crop", the shorter
        side to `resize_to` and the middle of that; "resize", the whole image; "none", as it is.
    flip: the probability of being mirrored; by default 0.5 for random crops, else 0.
    dtype: "uint8", 0 to 255; or "float32", "float16", "bfloat16", which are (x / 255 - mean) / std.
        By default uint8, and float32 where mean or std is given.
    layout: "NCHW" or "NHWC".
    scale, ratio: of random crops: the share of the area, and width to height.
    scaled_decode: large JPEGs are decoded at a half or less where that is enough. Faster; the pixels
        differ slightly from those of a full decode.
    accept_damage: takes damaged JPEGs, gray where data is missing, instead of an error.
    """

    size: Union[int, tuple[int, int]] = 224
    transform: str = "random_resized_crop"
    flip: Optional[float] = None
    dtype: Optional[str] = None
    layout: str = "NCHW"
    mean: Optional[Sequence[float]] = None
    std: Optional[Sequence[float]] = None
    resize_to: int = 0
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    antialias: bool = True
    scaled_decode: bool = True
    accept_damage: bool = False

    def decoder(self) -> Any:
        height, width = self._height_and_width()
        is_normalised = self.mean is not None or self.std is not None
        if is_normalised and self.dtype == "uint8":
            raise ValueError("mean and std are for dtype='float32', 'float16' or 'bfloat16'; bytes "
                             "are not normalised")
        if self.layout not in ("NCHW", "NHWC"):
            raise ValueError(f"layout={self.layout!r}: there are 'NCHW' and 'NHWC'")
        flip = self.flip if self.flip is not None else 0.5 * (self.transform == "random_resized_crop")
        return native.image_decoder(
            size=(height, width), transform=self.transform, flip=float(flip),
            dtype=self.dtype or ("float32" if is_normalised else "uint8"), layout=self.layout,
            mean=_channels("mean", self.mean, 0.0), std=_channels("std", self.std, 1.0),
            resize_to=self.resize_to, scale=self.scale, ratio=self.ratio, antialias=self.antialias,
            scaled_decode=self.scaled_decode, accept_damage=self.accept_damage)

    def _height_and_width(self) -> tuple[int, int]:
        size = self.size
        both = size if isinstance(size, (tuple, list)) else (size, size)
        if len(both) != 2 or not all(hasattr(side, "__index__") and 0 < side < 2**31 for side in both):
            raise ValueError(f"size={size!r} is neither a number of pixels nor (height, width)")
        return int(both[0]), int(both[1])


class Dataset:
    """A source of samples and what decodes them. Made by its subclasses."""

    _source: Any
    _decoder: Any  # None: Python decodes, in __getitem__
    _made_of: tuple  # the arguments it was made of

    def __new__(cls, *arguments: Any, **options: Any) -> "Dataset":
        made = super().__new__(cls)
        made._made_of = arguments, options
        return made

    def __reduce__(self) -> tuple:
        """Pickled, for processes that are spawned, it is what it was made of: it is opened again."""
        return _make_again, (type(self), *self._made_of)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        """Sample `index`: its array, or a tuple of its arrays and its label."""
        index = self._checked(index)
        convert = _outputs.converter(_outputs.choose(None))
        fields = self._decoder.decode(self._source, index)
        values = [convert(array) for array in fields.values()]
        if self.has_labels:
            values.append(self._source.label(index))
        return tuple(values) if len(values) > 1 else values[0]

    @property
    def has_labels(self) -> bool:
        """Whether samples have classes that are known without reading them."""
        return self._source.has_labels

    @property
    def labels(self) -> Any:
        """The classes of all samples, -1 where there is none: an array (or an Array without NumPy)."""
        kind = _outputs.choose(None)
        return _outputs.converter(kind)(self._source.labels())

    @property
    def fields(self) -> list:
        """Of each array of a sample its name, dtype and shape."""
        return self._decoder.fields()

    def name(self, index: int) -> str:
        """The sample as a user finds it: the file, and the place in it."""
        return self._source.name(self._checked(index))

    def subset(self, indices: Iterable[int]) -> "Subset":
        """Some of the samples, in this order; read and decoded by C++ as the whole is."""
        return Subset(self, indices)

    def _checked(self, index: int) -> int:
        count = len(self)
        if not hasattr(index, "__index__"):
            raise TypeError(f"a dataset is indexed by a number, not by {index!r}; subset() takes many")
        index = int(index)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of {count}")
        return index % count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples)"


class ImageFolder(Dataset):
    """A directory with a directory of JPEG and PNG files for each class, as torchvision has it.

        data = millrace.ImageFolder("train", size=224, transform="random_resized_crop",
                                    dtype="float32", mean=(.485, .456, .406), std=(.229, .224, .225))

    The options are those of `Image`. `transform` may be a function instead: it is then called with a
    PIL image, at Python's speed, as by torchvision's ImageFolder.
    """

    def __init__(self, root: PathLike, size: Union[int, tuple[int, int]] = 224,
                 transform: Union[str, Callable[[Any], Any]] = "random_resized_crop",
                 flip: Optional[float] = None, dtype: Optional[str] = None, layout: str = "NCHW",
                 mean: Optional[Sequence[float]] = None, std: Optional[Sequence[float]] = None, *,
                 target_transform: Optional[Callable[[int], Any]] = None,
                 extensions: Iterable[str] = IMAGE_EXTENSIONS, has_classes: bool = True,
                 engine: str = "auto", **options: Any) -> None:
        self.root = os.fspath(root)
        self._function = transform if callable(transform) else None
        self._target_function = target_transform
        if target_transform is not None and self._function is None:
            raise ValueError("target_transform needs a transform that is a function; else give "
                             "DataLoader a transform= of whole batches")
        self._decoder = None
        if self._function is None:
            self._decoder = Image(size, str(transform), flip, dtype, layout, mean, std,
                                  **options).decoder()
        self._source = _open_folder(self.root, extensions, has_classes, engine=engine)
        self.classes: list = self._source.class_names
        self.class_to_idx: dict = {name: label for label, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> Any:
        if self._function is None:
            return super().__getitem__(index)
        import io
        from PIL import Image as Pillow
        index = self._checked(index)
        with Pillow.open(io.BytesIO(self._source.read(index))) as picture:
            image = self._function(picture.convert("RGB"))
        if not self.has_labels:
            return image
        label = self._source.label(index)
        return image, label if self._target_function is None else self._target_function(label)

    @property
    def samples(self) -> "Samples":
        """(path, label) of every sample, made when asked for: a list of a million would be large."""
        return Samples(self._source)

    imgs = samples

    @property
    def targets(self) -> list:
        """The label of every sample, as torchvision has it."""
        return self._source.labels().tolist()


class RawFolder(Dataset):
    """A directory in which every file is one array, without a header: `shape` of `dtype`.

        data = millrace.RawFolder("samples", shape=(3, 224, 224), dtype="float32")

    With has_classes, the directories in it are classes.
    """

    def __init__(self, root: PathLike, shape: Sequence[int], dtype: str = "uint8", *,
                 extensions: Iterable[str] = (), has_classes: Optional[bool] = None,
                 engine: str = "auto") -> None:
        self.root = os.fspath(root)
        if has_classes is None:
            has_classes = _has_directories(self.root)
        self._decoder = native.array_decoder("data", dtype, _shape(shape))
        self._source = _open_folder(self.root, extensions, has_classes, engine=engine)
        self.classes: list = self._source.class_names
        self.class_to_idx: dict = {name: label for label, name in enumerate(self.classes)}


class ArrayFolder(Dataset):
    """A directory in which every file is one sample: an array (npy), or several by name (npz).

        data = millrace.ArrayFolder("train")              # train/cat/7.npy: (array, label)

    With has_classes, by default where there are directories, these are classes. fields: as of `Files`.
    """

    def __init__(self, root: PathLike, format: str = "npy",
                 fields: Union[Iterable[str], Mapping[str, Any], None] = None, *,
                 extensions: Iterable[str] = (), has_classes: Optional[bool] = None,
                 engine: str = "auto") -> None:
        self.root = os.fspath(root)
        if has_classes is None:
            has_classes = _has_directories(self.root)
        self._source = _open_folder(self.root, extensions, has_classes, format, engine)
        self._decoder = native.fields_decoder(self._source, _wishes(fields))
        self.classes: list = self._source.class_names
        self.class_to_idx: dict = {name: label for label, name in enumerate(self.classes)}


class Files(Dataset):
    """Files of many samples: raw, npy, npz, tfrecord, tar (WebDataset), indexed.

        millrace.Files("shards", format="tar", fields={"jpg;png": millrace.Image(224), "cls": "int64"})
        millrace.Files(["train.npy"], rows=True)
        millrace.Files(["train.bin"], format="raw", shape=(28, 28), dtype="uint8")

    files: paths, in this order; or a directory, of which all files of the format are taken.
    format: by default as the first file's name ends.
    fields: what is taken of a sample: names, or a dict from names ("jpg;png" is the first that is
        there) to what the field is: an `Image`, a dtype of one number, (dtype, shape), or None for
        what it is in the first sample. By default all fields of the first sample.
    shape, dtype: of every sample, for raw files.
    rows: of npy: the rows of a file are the samples; else the file is one.
    engine: how they are read, here and of the folders: "auto" measures on the first samples whether
        one read at a time ("posix") or many in flight ("uring") is faster, and again when that
        changes; "direct" goes past the page cache; "mapped" decodes samples where they lie, and a
        file that is cut short meanwhile ends the program.
    """

    def __init__(self, files: Union[PathLike, Iterable[PathLike]], format: Optional[str] = None,
                 fields: Union[Iterable[str], Mapping[str, Any], None] = None, *,
                 shape: Optional[Sequence[int]] = None, dtype: str = "uint8",
                 rows: bool = True, engine: str = "auto") -> None:
        paths, directory = _paths_of(files)
        record_bytes = 0
        if shape is not None:
            if fields is not None:
                raise ValueError("give shape and dtype, or fields, not both")
            decoder = native.array_decoder("data", dtype, _shape(shape))
            record_bytes = native.size_bytes(dtype, _shape(shape))
        # Who names the fields gets those, a class among them or not.
        self._adds_label = fields is None
        self._source = native.open_files(paths=paths, directory=directory, format=format or "",
                                         record_bytes=record_bytes, rows=rows,
                                         engine=_engine(engine))
        if shape is not None:
            self._decoder = decoder
        elif fields is None and self._source.element is not None:
            self._decoder = native.array_decoder(*self._source.element)
        else:
            self._decoder = native.fields_decoder(self._source, _wishes(fields))
        # A tar's class is one of its fields already.
        self._adds_label &= "cls" not in [name for name, _, _ in self._decoder.fields()]

    @property
    def has_labels(self) -> bool:
        return self._adds_label and self._source.has_labels


class Subset(Dataset):
    """Some samples of another dataset: what `dataset.subset(indices)` gives. Subsets that torch's
    Subset or random_split made of a dataset of this module are read as this is."""

    def __init__(self, dataset: Dataset, indices: Iterable[int]) -> None:
        self.dataset = dataset
        self.indices = [dataset._checked(index) for index in indices]
        self._source = dataset._source.subset(self.indices)
        self._decoder = dataset._decoder

    def __getitem__(self, index: int) -> Any:
        if self._decoder is None:
            return self.dataset[self.indices[self._checked(index)]]
        return super().__getitem__(index)

    @property
    def has_labels(self) -> bool:
        return self.dataset.has_labels


def read_by_native(dataset: Any) -> Optional[Dataset]:
    """The dataset, where C++ can read and decode it; None where Python makes its samples."""
    if isinstance(dataset, Dataset):
        return dataset if dataset._decoder is not None else None
    if not is_subset(dataset):
        return None
    whole = read_by_native(dataset.dataset)
    return None if whole is None else whole.subset(dataset.indices)


class Samples(Sequence):
    """(path, label) of each sample of a folder, without keeping them."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        index %= len(self)
        return self._source.name(index), self._source.label(index)

    def __iter__(self) -> Iterator:
        return (self[index] for index in range(len(self)))


def _make_again(kind: type, arguments: tuple, options: dict) -> Dataset:
    return kind(*arguments, **options)


def _channels(name: str, values: Optional[Sequence[float]], or_else: float) -> tuple:
    if values is None:
        return (or_else,) * 3
    channels = tuple(float(value) for value in values)
    if len(channels) != 3:
        raise ValueError(f"{name} has {len(channels)} numbers; give one each for red, green and blue")
    return channels


def _shape(shape: Union[int, Sequence[int]]) -> list:
    lengths = [shape] if isinstance(shape, int) else list(shape)
    if any(length < 0 for length in lengths):
        raise ValueError(f"shape={tuple(lengths)} has a negative length")
    return lengths


def _has_directories(root: str) -> bool:
    with os.scandir(root) as entries:
        return any(entry.is_dir() for entry in entries)


def _open_folder(root: str, extensions: Iterable[str], has_classes: bool, format: str = "",
                 engine: str = "auto") -> Any:
    # As bytes: a name need not be UTF-8.
    return native.open_folder(os.fsencode(root), list(extensions), has_classes, format,
                              _engine(engine))


def _engine(name: str) -> str:
    if name == "memory":  # of C++ tests
        raise ValueError("engine='memory': there are 'auto', 'posix', 'mapped', 'direct' and 'uring'")
    return name


def _paths_of(files: Union[PathLike, Iterable[PathLike]]) -> tuple:
    if isinstance(files, (str, os.PathLike)):
        path = os.fsencode(files)
        return ([], path) if os.path.isdir(path) else ([path], b"")
    return [os.fsencode(path) for path in files], b""


def _wishes(fields: Union[Iterable[str], Mapping[str, Any], None]) -> list:
    if fields is None:
        return []
    items = fields.items() if isinstance(fields, Mapping) else ((name, None) for name in fields)
    return [_wish(names, what) for names, what in items]


def _wish(names: str, what: Any) -> tuple:
    if what is None:
        return names, None, None, None
    if isinstance(what, Image):
        return names, None, None, what.decoder()
    if isinstance(what, str):
        return names, what, None, None
    if isinstance(what, tuple) and len(what) == 2:
        return names, what[0], _shape(what[1]), None
    raise TypeError(f"fields[{names!r}] is a {type(what).__name__}; give a dtype ('int64'), (dtype, "
                    "shape), an Image or None")
