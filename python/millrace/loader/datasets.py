"""Datasets that C++ reads and decodes: folders of images, folders of arrays, files of many samples.

Each is also a map-style dataset: `dataset[i]` is sample i, decoded as in a batch of epoch 0.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from millrace.loader import _outputs, _shapes
from millrace.loader._native import native
from millrace.loader._torch_options import is_subset

PathLike = Union[str, "os.PathLike[str]"]
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Image:
    """How encoded images (JPEG, PNG) are turned into pixels of one size.

    size: of the result, in pixels; one number, or (height, width).
    transform: "random_resized_crop": a random part, resized to `size`; "resize_center_crop": resizes
        the shorter side to `resize_to` and takes the centre; "resize": the whole image; "none": the
        image as it is.
    flip: the probability of mirroring; by default 0.5 for random crops, otherwise 0.
    dtype: "uint8", 0 to 255; or "float32", "float16", "bfloat16": (x / 255 - mean) / std. The default
        is uint8, or float32 if mean or std is given.
    layout: "NCHW" or "NHWC".
    scale, ratio: for random crops: the range of the share of the area, and of width / height.
    scaled_decode: decode large JPEGs at half size or less if that is enough. Faster; the pixels
        differ slightly from those of a full decode.
    accept_damage: accept damaged JPEGs, with gray for missing data, instead of raising an error.
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
            raise ValueError("mean and std need dtype='float32', 'float16' or 'bfloat16'; uint8 is not "
                             "normalised")
        if self.layout not in ("NCHW", "NHWC"):
            raise ValueError(f"layout={self.layout!r}: expected 'NCHW' or 'NHWC'")
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
    """A source and a decoder. Abstract: use its subclasses."""

    _source: Any
    _decoder: Any  # None: Python decodes, in __getitem__
    _made_of: tuple  # the arguments of its constructor
    _map: Optional[Callable[[Any], Any]] = None  # called with every sample
    _shapes: dict = {}  # the Ragged, Text, Mask or Boxes that a field is, by its name

    def __new__(cls, *arguments: Any, **options: Any) -> "Dataset":
        made = super().__new__(cls)
        made._made_of = arguments, options
        return made

    def __reduce__(self) -> tuple:
        """Pickles only the arguments of the constructor: a spawned process opens the dataset again."""
        return _make_again, (type(self), *self._made_of)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        """Sample `index`: its array, or a tuple of its arrays and its label. With `map=`, what the
        function returns for it."""
        sample = self._sample(index)
        return sample if self._map is None else self._map(sample)

    def _sample(self, index: int) -> Any:
        index = self._checked(index)
        convert = _outputs.converter(_outputs.choose(None))
        fields = self._decoder.decode(self._source, index)
        values = [_shapes.present_sample(self._shapes, name, array, convert,
                                         lambda: self._source.name(index))
                  for name, array in fields.items()]
        if self.has_labels:
            values.append(self._source.label(index))
        return tuple(values) if len(values) > 1 else values[0]

    @property
    def has_labels(self) -> bool:
        """Whether the classes of samples are known without reading them."""
        return self._source.has_labels

    @property
    def labels(self) -> Any:
        """The classes of all samples, -1 for none, as a tensor or array (without torch and NumPy, an
        Array)."""
        kind = _outputs.choose(None)
        return _outputs.converter(kind)(self._source.labels())

    @property
    def fields(self) -> list:
        """The name, dtype and shape of each array of a sample; a length that varies is None."""
        return self._decoder.fields()

    def name(self, index: int) -> str:
        """The file of the sample, and its position in the file."""
        return self._source.name(self._checked(index))

    def subset(self, indices: Iterable[int]) -> "Subset":
        """Some of the samples, in this order. C++ reads and decodes them too."""
        return Subset(self, indices)

    def _checked(self, index: int) -> int:
        count = len(self)
        if not hasattr(index, "__index__"):
            raise TypeError(f"a dataset is indexed by an integer, not by {index!r}; use subset() for "
                            "many")
        index = int(index)
        if not -count <= index < count:
            raise IndexError(f"sample {index} is out of range: there are {count} samples")
        return index % count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples)"


class _Folder(Dataset):
    """A directory in which every file is a sample. Its subdirectories may be classes."""

    root: str
    classes: list
    class_to_idx: dict

    def _open(self, root: PathLike, extensions: Iterable[str], has_classes: Optional[bool], engine: str,
              format: str = "") -> None:
        self.root = os.fspath(root)
        if has_classes is None:
            has_classes = native.has_directories(os.fsencode(self.root))
        self._source = _open_folder(self.root, extensions, has_classes, format, engine)
        self.classes = self._source.class_names
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}


class ImageFolder(_Folder):
    """A directory with one subdirectory of JPEG and PNG files per class, as in torchvision.

        data = millrace.ImageFolder("train", size=224, transform="random_resized_crop",
                                    dtype="float32", mean=(.485, .456, .406), std=(.229, .224, .225))

    The options are those of `Image`. `transform` may also be a function: then, as in torchvision's
    ImageFolder, it is called with a PIL image, at the speed of Python. map: as in `Files`.
    decode: if False, a sample is the bytes of its file, and a batch has a list of uint8 tensors, for
        example for torchvision.io.decode_jpeg on a GPU.
    """

    def __init__(self, root: PathLike, size: Union[int, tuple[int, int]] = 224,
                 transform: Union[str, Callable[[Any], Any]] = "random_resized_crop",
                 flip: Optional[float] = None, dtype: Optional[str] = None, layout: str = "NCHW",
                 mean: Optional[Sequence[float]] = None, std: Optional[Sequence[float]] = None, *,
                 target_transform: Optional[Callable[[int], Any]] = None,
                 extensions: Iterable[str] = IMAGE_EXTENSIONS, has_classes: bool = True,
                 engine: str = "auto", decode: bool = True,
                 map: Optional[Callable[[Any], Any]] = None, **options: Any) -> None:
        self._map = _checked_map(map)
        self._function = transform if callable(transform) else None
        self._target_function = target_transform
        if target_transform is not None and self._function is None:
            raise ValueError("target_transform needs a transform that is a function. Otherwise use "
                             "DataLoader's transform=, a function of the whole batch")
        self._decoder = None
        if not decode:
            if self._function is not None:
                raise ValueError("decode=False returns the bytes of the files: remove transform=")
            encoded = _shapes.Ragged("uint8", (), form="list")
            self._decoder = native.array_decoder("image", "uint8", [], encoded.limits())
            self._shapes = {"image": encoded}
        elif self._function is None:
            self._decoder = Image(size, str(transform), flip, dtype, layout, mean, std,
                                  **options).decoder()
        self._open(root, extensions, has_classes, engine)

    def _sample(self, index: int) -> Any:
        if self._function is None:
            return super()._sample(index)
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
        """(path, label) of every sample, made on demand: a list of a million would be large."""
        return Samples(self._source)

    imgs = samples

    @property
    def targets(self) -> list:
        """The label of every sample, as in torchvision."""
        return self._source.labels().tolist()


class RawFolder(_Folder):
    """A directory in which every file is one array of `shape` and `dtype`, without a header.

        data = millrace.RawFolder("samples", shape=(3, 224, 224), dtype="float32")

    shape: (None, 4): files of any number of such rows, or a `Ragged`.

    With has_classes (the default if there are subdirectories), subdirectories are classes. map: as in
    `Files`.
    """

    def __init__(self, root: PathLike, shape: Any, dtype: str = "uint8", *,
                 extensions: Iterable[str] = (), has_classes: Optional[bool] = None,
                 engine: str = "auto", map: Optional[Callable[[Any], Any]] = None) -> None:
        self._map = _checked_map(map)
        ragged = _shapes.ragged_of(shape, dtype)
        if ragged is None:
            self._decoder = native.array_decoder("data", dtype, _shape(shape))
        else:
            self._decoder = native.array_decoder("data", ragged.dtype or dtype,
                                                 _shape(ragged.shape or ()), ragged.limits())
            self._shapes = {"data": ragged}
        self._open(root, extensions, has_classes, engine)


class ArrayFolder(_Folder):
    """A directory in which every file is one sample: an array (npy), or several by name (npz).

        data = millrace.ArrayFolder("train")              # train/cat/7.npy: (array, label)

    With has_classes (the default if there are subdirectories), subdirectories are classes. fields,
    map: as in `Files`.
    """

    def __init__(self, root: PathLike, format: str = "npy",
                 fields: Union[Iterable[str], Mapping[str, Any], None] = None, *,
                 extensions: Iterable[str] = (), has_classes: Optional[bool] = None,
                 engine: str = "auto", map: Optional[Callable[[Any], Any]] = None) -> None:
        self._map = _checked_map(map)
        self._open(root, extensions, has_classes, engine, format)
        self._decoder = native.fields_decoder(self._source, _field_requests(fields))
        self._shapes = _shapes_of(fields)


class Folders(Dataset):
    """Several directories with one file each per sample, matched by name: images/7.jpg, masks/7.png.

        millrace.Folders({"image": "train/images", "mask": "train/masks"},
                         fields={"image": millrace.Image(512), "mask": millrace.Mask(like="image")})

    folders: name and directory. The files of the first are the samples. Every other directory must have
        one file of the same name for each, with any extension; subdirectories must be the same too.
    fields: what each of them is, as in `Files`. A file that holds an npy array is that array.
    """

    def __init__(self, folders: Mapping[str, PathLike], fields: Mapping[str, Any], *,
                 engine: str = "auto") -> None:
        if not folders or set(folders) != set(fields):
            raise ValueError(f"give a field for each folder: the folders are {sorted(folders)}, the fields "
                             f"are {sorted(fields)}")
        opened = {name: _open_folder(os.fspath(folder), (), False, engine=engine)
                  for name, folder in folders.items()}
        numbers = {name: _numbers_by_stem(os.fspath(folders[name]), opened[name]) for name in folders}
        stems = list(next(iter(numbers.values())))
        parts = []
        for name, by_stem in numbers.items():
            missing = next((stem for stem in stems if stem not in by_stem), None)
            if missing is not None:
                raise ValueError(f"{os.fspath(folders[name])}: has no file for {missing!r}, which is in "
                                 f"{os.fspath(next(iter(folders.values())))}; add it or remove the other")
            parts.append((name, opened[name].subset([by_stem[stem] for stem in stems])))
        self._source = native.join_folders(parts)
        self._decoder = native.fields_decoder(self._source, _field_requests(fields))
        self._shapes = _shapes_of(fields)


class Files(Dataset):
    """Files of many samples: raw, npy, npz, tfrecord, tar (WebDataset), indexed, csv, tsv, json, jsonl,
    megatron, tfrecord_gzip, indexed_binary, hdf5, parquet.

        millrace.Files("shards", format="tar", fields={"jpg;png": millrace.Image(224), "cls": "int64"})
        millrace.Files(["train.npy"], rows=True)
        millrace.Files(["train.h5"], fields={"x": "float32", "labels": "int64"})
        millrace.Files(["train.bin"], format="raw", shape=(28, 28), dtype="uint8")

    files: paths, in this order; or a directory: all its files of the format.
    format: by default from the name of the first file.
    fields: the fields to load: names, or a dict from names ("jpg;png": the first that exists) to what
        the field is: an `Image`; a dtype, for a single number; (dtype, shape), with None as the first
        length if it varies; a `Ragged`, `Text`, `Mask` or `Boxes`; "str" or "bytes", for text; or None,
        for the type that it has in the first sample. By default all fields of the first sample. Text of
        csv and json files is "str" by default.
    shape, dtype: of every sample, for raw files.
    rows: for npy and hdf5: the rows of a file are its samples; if False, the file is one sample.
    header: for csv and tsv: whether the first row of each file names the columns. By default, it does if
        all its cells are text and differ.
    float_type: for csv, tsv, json and jsonl: "float32" or "float64", for numbers that are not all integers
        and whose type `fields` does not give.
    window_tokens: for megatron: a sample is that number of tokens and the next one, so that
        tokens[:-1] are the inputs and tokens[1:] the targets. If 0, a sample is a document.
    engine: how to read, here and in the folders. "auto" measures on the first samples whether one
        read at a time ("posix") or many in flight ("uring") is faster, and measures again if that
        changes. "direct" bypasses the page cache. "mapped" decodes samples in place; if a file is
        truncated meanwhile, the program crashes.
    map: a Python function, here and in the folders, that is called with every decoded sample (what
        `dataset[i]` is without it) in a worker process; batches are made of what it returns. It may
        change the arrays in place, but must not keep them.
    """

    def __init__(self, files: Union[PathLike, Iterable[PathLike]], format: Optional[str] = None,
                 fields: Union[Iterable[str], Mapping[str, Any], None] = None, *,
                 shape: Optional[Sequence[int]] = None, dtype: str = "uint8",
                 rows: bool = True, header: Optional[bool] = None, float_type: str = "float32",
                 window_tokens: int = 0, engine: str = "auto",
                 map: Optional[Callable[[Any], Any]] = None) -> None:
        self._map = _checked_map(map)
        paths, directory = _paths_of(files)
        record_bytes = 0
        if shape is not None:
            if fields is not None:
                raise ValueError("give shape and dtype, or fields, not both")
            decoder = native.array_decoder("data", dtype, _shape(shape))
            record_bytes = native.size_bytes(dtype, _shape(shape))
        requests = _field_requests(fields)
        # If fields are given, return only those, even if there is a class.
        self._adds_label = fields is None
        self._source = native.open_files(paths=paths, directory=directory, format=format or "",
                                         record_bytes=record_bytes, rows=rows, header=header,
                                         float_type=float_type, window_tokens=window_tokens,
                                         field_names=_plain_names(requests), engine=engine)
        if shape is not None:
            self._decoder = decoder
        elif fields is None and self._source.element is not None:
            self._decoder = native.array_decoder(*self._source.element)
        else:
            if len(self._source) == 0:
                named = next(iter(paths), directory)
                raise ValueError(f"{os.fsdecode(named)}: there are no samples, so that its fields are not known")
            fields = _with_text(fields, self._source)
            self._decoder = native.fields_decoder(self._source, _field_requests(fields))
            self._shapes = _shapes_of(fields)
        # A tar's class is one of its fields already.
        self._adds_label &= "cls" not in [name for name, _, _ in self._decoder.fields()]

    @property
    def has_labels(self) -> bool:
        return self._adds_label and self._source.has_labels


class Subset(Dataset):
    """Some samples of another dataset, as returned by `dataset.subset(indices)`. C++ also reads subsets
    of these datasets that were made by torch's Subset or random_split."""

    def __init__(self, dataset: Dataset, indices: Iterable[int]) -> None:
        self.dataset = dataset
        self.indices = [dataset._checked(index) for index in indices]
        self._source = dataset._source.subset(self.indices)
        self._decoder = None if dataset._decoder is None else dataset._decoder.subset(self.indices)
        self._map = dataset._map
        self._shapes = dataset._shapes

    def _sample(self, index: int) -> Any:
        if self._decoder is None:
            return self.dataset._sample(self.indices[self._checked(index)])
        return super()._sample(index)

    @property
    def has_labels(self) -> bool:
        return self.dataset.has_labels


def read_by_native(dataset: Any) -> Optional[Dataset]:
    """The dataset if C++ can read and decode it; None if Python makes its samples."""
    if isinstance(dataset, Dataset):
        return dataset if dataset._decoder is not None else None
    if not is_subset(dataset):
        return None
    whole = read_by_native(dataset.dataset)
    return None if whole is None else whole.subset(dataset.indices)


class Samples(Sequence):
    """(path, label) of each sample of a folder, made on demand."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} is out of range: there are {len(self)} samples")
        index %= len(self)
        return self._source.name(index), self._source.label(index)

    def __iter__(self) -> Iterator:
        return (self[index] for index in range(len(self)))


def _make_again(kind: type, arguments: tuple, options: dict) -> Dataset:
    return kind(*arguments, **options)


def _checked_map(function: Any) -> Any:
    if function is not None and not callable(function):
        raise TypeError(f"map={function!r} is not a function of a sample")
    return function


def _channels(name: str, values: Optional[Sequence[float]], or_else: float) -> tuple:
    if values is None:
        return (or_else,) * 3
    channels = tuple(float(value) for value in values)
    if len(channels) != 3:
        raise ValueError(f"{name} has {len(channels)} numbers; give three, for red, green and blue")
    return channels


def _shape(shape: Union[int, Sequence[int]]) -> list:
    lengths = [shape] if isinstance(shape, int) else list(shape)
    if any(length < 0 for length in lengths):
        raise ValueError(f"shape={tuple(lengths)} has a negative length")
    return lengths


def _open_folder(root: str, extensions: Iterable[str], has_classes: bool, format: str = "",
                 engine: str = "auto") -> Any:
    # As bytes: file names need not be UTF-8.
    return native.open_folder(os.fsencode(root), list(extensions), has_classes, format,
                              engine)


def _numbers_by_stem(root: str, source: Any) -> dict:
    """The number of each sample by its path in the folder, without the extension."""
    numbers: dict = {}
    for number in range(len(source)):
        path = source.name(number)
        stem = os.path.splitext(os.path.relpath(path, root))[0]
        if stem in numbers:
            raise ValueError(f"{path} and {source.name(numbers[stem])} have the same name but for the "
                             "extension; remove one")
        numbers[stem] = number
    return numbers


def _paths_of(files: Union[PathLike, Iterable[PathLike]]) -> tuple:
    if isinstance(files, (str, os.PathLike)):
        path = os.fsencode(files)
        return ([], path) if native.is_directory(path) else ([path], b"")
    return [os.fsencode(path) for path in files], b""


def _with_text(fields: Union[Iterable[str], Mapping[str, Any], None], source: Any) -> Any:
    """Text of csv and json is "str" unless the fields say otherwise: its length varies."""
    if source.format not in ("csv", "tsv", "json", "jsonl") or len(source) == 0:
        return fields
    first = native.fields_decoder(source, []).fields()
    texts = {name for name, dtype, shape in first if dtype == "uint8" and len(shape) == 1}
    if fields is None:
        fields = [name for name, _, _ in first]
    if not isinstance(fields, Mapping):
        fields = dict.fromkeys(fields)
    return {names: "str" if what is None and texts.intersection(names.split(";")) else what
            for names, what in fields.items()}


def _field_requests(fields: Union[Iterable[str], Mapping[str, Any], None]) -> list:
    if fields is None:
        return []
    items = fields.items() if isinstance(fields, Mapping) else ((name, None) for name in fields)
    unset = dict.fromkeys(("dtype", "shape", "decoder", "ragged", "mask", "boxes", "follows"))
    return [(names, {**unset, **_field_request(names, what)}) for names, what in items]


def _plain_names(requests: list) -> list:
    """The fields that must be read, for formats that can read some of them; empty: all."""
    is_plain = all(";" not in name and not what["boxes"] for name, what in requests)
    return [name for name, _ in requests] if is_plain else []


def _field_request(names: str, what: Any) -> dict:
    shape = _shapes.shape_of(what)
    if shape is not None:
        return shape.request()
    if what is None:
        return {}
    if isinstance(what, Image):
        return {"decoder": what.decoder()}
    if isinstance(what, str):
        return {"dtype": what}
    if isinstance(what, tuple) and len(what) == 2:
        return {"dtype": what[0], "shape": _shape(what[1])}
    raise TypeError(f"fields[{names!r}] is a {type(what).__name__}; give a dtype ('int64'), (dtype, "
                    "shape), an Image, Ragged, Text, Mask, Boxes or None")


def _shapes_of(fields: Any) -> dict:
    if not isinstance(fields, Mapping):
        return {}
    shapes = {names.split(";")[0]: _shapes.shape_of(what) for names, what in fields.items()}
    return {name: shape for name, shape in shapes.items() if shape is not None}
