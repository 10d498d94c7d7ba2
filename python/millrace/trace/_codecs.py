"""Marks code of libraries that decodes, decompresses or parses samples.

What a dataset's own code does is otherwise one number: a trace shows that a worker was busy, not that
it decoded JPEG from a file whose name does not say so. Functions are marked only while a DataLoader
loads, so that the gaps of a training loop stay gaps. A call costs a fraction of a microsecond more.
"""

import functools
import sys
import threading

from millrace import _trace
from millrace.trace import names

DONE = "_millrace_codecs_marked"

thread = threading.local()  # is_fetching, set by _torch; epochs, by _loaders

# Functions by module, and methods by module and class.
FUNCTIONS = {
    "bz2": {"decompress": names.DECOMPRESS},
    "cv2": {"imdecode": names.DECODE, "imread": names.DECODE, "imdecodemulti": names.DECODE},
    "gzip": {"decompress": names.DECOMPRESS},
    "json": {"loads": names.PARSE},
    "librosa": {"load": names.DECODE},
    "lz4.block": {"decompress": names.DECOMPRESS},
    "lz4.frame": {"decompress": names.DECOMPRESS},
    "lzma": {"decompress": names.DECOMPRESS},
    "numpy": {"genfromtxt": names.PARSE, "loadtxt": names.PARSE},
    "orjson": {"loads": names.PARSE},
    "pandas": {"read_csv": names.PARSE, "read_json": names.PARSE, "read_table": names.PARSE,
               "read_xml": names.PARSE},
    "simplejson": {"loads": names.PARSE},
    "soundfile": {"read": names.DECODE},
    "tifffile": {"imread": names.DECODE},
    "torchaudio": {"load": names.DECODE},
    "torchvision.io.image": {"decode_image": names.DECODE, "decode_jpeg": names.DECODE,
                             "decode_png": names.DECODE, "read_image": names.DECODE},
    "torchvision.io.video": {"read_video": names.DECODE},
    "ujson": {"loads": names.PARSE},
    "xml.etree.ElementTree": {"parse": names.PARSE, "fromstring": names.PARSE, "XML": names.PARSE},
    "yaml": {"load": names.PARSE},
    "zlib": {"decompress": names.DECOMPRESS},
}
METHODS = {
    "_compression": {"DecompressReader": {"read": names.DECOMPRESS}},
    "compression._common._streams": {"DecompressReader": {"read": names.DECOMPRESS}},
    "gzip": {"_GzipReader": {"read": names.DECOMPRESS}},
    "PIL.ImageFile": {"ImageFile": {"load": names.DECODE}},
    "PIL.TiffImagePlugin": {"TiffImageFile": {"load": names.DECODE}},
    "PIL.WebPImagePlugin": {"WebPImageFile": {"load": names.DECODE}},
    "zipfile": {"ZipExtFile": {"_read1": names.DECOMPRESS}},
}
# Calls that have nothing to do: an image that is decoded already, a member that is only stored.
IDLE = {
    ("ImageFile", "load"): lambda image: not image.tile,
    ("ZipExtFile", "_read1"): lambda member: getattr(member, "_compress_type", 0) == 0,
}


def watched():
    return FUNCTIONS.keys() | METHODS.keys()


def patch_loaded():
    """Marks the modules that were imported before."""
    for name in watched():
        if name in sys.modules:
            patch(sys.modules[name])


def patch(module):
    if not _trace._preloaded() or getattr(module, DONE, False):
        return
    for name, kind in FUNCTIONS.get(module.__name__, {}).items():
        mark(module, name, kind)
    for owner, methods in METHODS.get(module.__name__, {}).items():
        for name, kind in methods.items():
            if hasattr(module, owner):
                mark(getattr(module, owner), name, kind)
    setattr(module, DONE, True)


def mark(owner, name, kind):
    real = vars(owner).get(name)
    if callable(real):
        setattr(owner, name, marked(real, kind, IDLE.get((owner.__name__, name))))


def marked(real, kind, is_idle):
    recorded = _trace.region(kind)(real)

    @functools.wraps(real)
    def call(*arguments, **keywords):
        if not is_loading() or (is_idle is not None and is_idle(arguments[0])):
            return real(*arguments, **keywords)
        return recorded(*arguments, **keywords)

    return call


def is_loading():
    if getattr(thread, "is_fetching", False):
        return True
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker._worker_info is not None
