"""Shapes: what a field of a sample is, if it is not an array of one shape: ragged arrays, text, masks
and boxes."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional


class RaggedBatch(NamedTuple):
    """The items of all samples of a batch: those of sample i are values[offsets[i]:offsets[i + 1]]."""

    values: Any
    offsets: Any


class PaddedBatch(NamedTuple):
    """One row per sample, all of the same length: values[i, :lengths[i]] are its items, and padding
    follows."""

    values: Any
    lengths: Any


@dataclass(frozen=True)
class Ragged:
    """A field whose first axis has another length in each sample, such as tokens or points.

    dtype, shape: of one item: shape=(3,) for [any, 3]. By default as in the first sample.
    form: how a batch holds it. "offsets": a RaggedBatch; "list": a list of views, one per sample.
    pad: the batch is a PaddedBatch instead, with this value behind the items of a sample. The rows
        have max_length items or, without it, as many as the longest sample of the batch.
    max_length: longer samples raise SampleError or, with truncate, are cut.
    boxes: the name of a field of Boxes that this one has an item per box for, such as their classes.
        The items of boxes that are dropped are dropped too.
    """

    dtype: Optional[str] = None
    shape: Optional[Sequence[int]] = None
    form: str = "offsets"
    pad: Optional[float] = None
    max_length: Optional[int] = None
    truncate: bool = False
    boxes: Optional[str] = None

    def __post_init__(self) -> None:
        if self.form not in ("offsets", "list"):
            raise ValueError(f"form={self.form!r}: expected 'offsets' or 'list'; for padded rows give "
                             "pad=")
        if self.pad is not None and self.form == "list":
            raise ValueError("give form='list' or pad=, not both")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length={self.max_length}: expected 1 or more")
        if self.truncate and self.max_length is None:
            raise ValueError("truncate=True needs max_length=")

    def request(self) -> dict:
        shape = None if self.shape is None else [int(length) for length in self.shape]
        return {"dtype": self.dtype, "shape": shape, "ragged": self.limits(), "follows": self.boxes}

    def limits(self) -> dict:
        return {"max_length": self.max_length or 0, "truncate": self.truncate, "pad": self.pad}

    def batch(self, arrays: Any, convert: Callable[[Any], Any], names: "Names") -> Any:
        values, numbers = arrays
        if self.pad is not None:
            return PaddedBatch(convert(values), convert(numbers))
        if self.form == "offsets":
            return RaggedBatch(convert(values), convert(numbers))
        return _views(values, numbers.tolist(), convert)

    def sample(self, array: Any, convert: Callable[[Any], Any], name: str) -> Any:
        return convert(array)


@dataclass(frozen=True)
class Text:
    """A field of text: a batch has a list of str. encoding=None: of bytes, as they are in the file.

    errors: what to do with bytes that are not text: "strict" (raise), "replace" or "ignore".
    """

    encoding: Optional[str] = "utf-8"
    errors: str = "strict"
    max_length: Optional[int] = None

    def request(self) -> dict:
        return {"dtype": "uint8", "shape": [],
                "ragged": {"max_length": self.max_length or 0, "truncate": False, "pad": None}}

    def batch(self, arrays: Any, convert: Callable[[Any], Any], names: "Names") -> list:
        values, offsets = arrays
        content, ends = memoryview(values), offsets.tolist()
        return [self._text(content[begin:end], names, row)
                for row, (begin, end) in enumerate(zip(ends, ends[1:]))]

    def sample(self, array: Any, convert: Callable[[Any], Any], name: str) -> Any:
        return self._text(memoryview(array), lambda row: name, 0)

    def _text(self, content: memoryview, names: "Names", row: int) -> Any:
        if self.encoding is None:
            return content.tobytes()
        try:
            return str(content, self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise ValueError(f"{names(row)}: not {self.encoding} text: {error}. Give Text(errors="
                             "'replace'), another encoding, or 'bytes'") from None


@dataclass(frozen=True)
class Mask:
    """The classes of the pixels of an image: a gray PNG or one with a palette, or an array of integers
    [height, width]. It is cropped, resized and mirrored like its image; resizing takes the nearest pixel.

    like: the name of the image's field, as in `fields`.
    dtype: of the batch [samples, height, width]: "uint8", or "int64" as many losses need it.
    """

    like: str
    dtype: str = "uint8"

    def request(self) -> dict:
        return {"mask": self.dtype, "follows": self.like}


@dataclass(frozen=True)
class Boxes:
    """The bounding boxes of an image, [any, 4], which are cropped, resized and mirrored like it. The
    result is float32 in the same format, in pixels of the resized image (or fractions of it).

    like: the name of the image's field, as in `fields`.
    format: "xyxy" (left, top, right, bottom), "xywh", or "cxcywh" (centre, width and height).
    normalized: whether the numbers are fractions of the image's width and height.
    min_size, min_area: boxes of which less is left in the crop, in pixels, are dropped, as by
        torchvision's SanitizeBoundingBoxes. With 0 and 0 all are kept: those outside have no area.
    columns: the names of four lists with one number per box each, as in TFRecords of TensorFlow's object
        detection, in the order of the format. The key in `fields` is then only a name.
    form, pad, max_length, truncate: as in Ragged.
    """

    like: str
    format: str = "xyxy"
    normalized: bool = False
    min_size: float = 1.0
    min_area: float = 1.0
    columns: Sequence[str] = ()
    form: str = "offsets"
    pad: Optional[float] = None
    max_length: Optional[int] = None
    truncate: bool = False

    def __post_init__(self) -> None:
        self._ragged()

    def request(self) -> dict:
        return {"boxes": {"format": self.format, "normalized": self.normalized,
                          "min_size": float(self.min_size), "min_area": float(self.min_area),
                          "columns": list(self.columns)},
                "ragged": self._ragged().limits(), "follows": self.like}

    def batch(self, arrays: Any, convert: Callable[[Any], Any], names: "Names") -> Any:
        return self._ragged().batch(arrays, convert, names)

    def sample(self, array: Any, convert: Callable[[Any], Any], name: str) -> Any:
        return convert(array)

    def _ragged(self) -> Ragged:
        return Ragged("float32", (4,), self.form, self.pad, self.max_length, self.truncate)


Names = Callable[[int], str]  # the name of the sample in a row, for errors


def shape_of(what: Any) -> Any:
    """What a user wrote for a field, if it is one of these; otherwise None."""
    if isinstance(what, (Ragged, Text, Mask, Boxes)):
        return what
    if what in ("bytes", bytes):
        return Text(encoding=None)
    if what in ("str", str):
        return Text()
    if isinstance(what, tuple) and len(what) == 2 and _is_ragged_shape(what[1]):
        return Ragged(what[0], tuple(what[1])[1:])
    return None


def ragged_of(shape: Any, dtype: str) -> Optional[Ragged]:
    """The Ragged of `shape`: one already, or (None, ...). Otherwise None."""
    if isinstance(shape, Ragged):
        if shape.dtype is not None or shape.shape is not None:
            return shape
        return Ragged(dtype, (), shape.form, shape.pad, shape.max_length, shape.truncate)
    return Ragged(dtype, tuple(shape)[1:]) if _is_ragged_shape(shape) else None


def present(shapes: dict, name: str, arrays: Any, convert: Callable[[Any], Any], names: Names) -> Any:
    """A field of a batch as its user gets it."""
    shape = shapes.get(name)
    if not isinstance(arrays, tuple) or shape is None:
        return convert(arrays)
    return shape.batch(arrays, convert, names)


def present_sample(shapes: dict, name: str, array: Any, convert: Callable[[Any], Any],
                   sample_name: Callable[[], str]) -> Any:
    """A field of a single sample: its own items, without padding."""
    shape = shapes.get(name)
    if shape is None or isinstance(shape, Mask):
        return convert(array)
    return shape.sample(array, convert, sample_name() if isinstance(shape, Text) else "")


def _is_ragged_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list)) and len(shape) > 0 and shape[0] is None


def _views(values: Any, offsets: list, convert: Callable[[Any], Any]) -> list:
    whole = convert(values)
    if type(whole) is type(values):  # neither torch nor numpy, so it cannot be sliced
        whole = memoryview(values)
        if whole.ndim > 1:
            raise ValueError("form='list' of items with a shape needs torch or numpy; use 'offsets'")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(whole, torch.Tensor):
        return list(torch.split(whole, [end - begin for begin, end in zip(offsets, offsets[1:])]))
    return [whole[begin:end] for begin, end in zip(offsets, offsets[1:])]
