"""Device time: when the GPU computed and when it copied. docs/design/gpu-time.md says how it is measured.

The work is timed by the extension (python/trace_extension/device_timer.h). Here it is found out whether there is
a GPU, and how to ask for its current stream.
"""

import atexit
import os
import sys

from millrace import _trace

kind = None  # the type of the devices that are timed, "cuda"; None: PyTorch has no GPU

# How the name of the driver's library begins, by the part of torch.version that is set.
LIBRARIES = {"cuda": "libcuda.so", "hip": "libamdhip64.so"}


def find(torch_version):
    """Times the GPU if this PyTorch has CUDA (or HIP, under the same names)."""
    if kind is not None or os.environ.get("MILLRACE_DEVICE_TIME") == "0":
        return
    for platform, library in LIBRARIES.items():
        if getattr(torch_version, platform, None):
            use("cuda", lambda: find_cuda(sys.modules, library))
            return


def use(device_kind, finder):
    """`finder` as for _trace._device_find()."""
    global kind
    kind = device_kind
    _trace._device_find(finder)
    atexit.register(_trace._device_finish)


def find_cuda(modules, library):
    """Which functions to ask, once the program has initialised the GPU.

    Those of torch._C return the current stream without making an object of it. They are private: if this
    PyTorch does not have them, or they take other arguments, the public ones are used.
    """
    cuda = modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return None
    try:
        private = modules["torch._C"]
        get_device, get_stream = private._cuda_getDevice, private._cuda_getCurrentRawStream
        get_stream(get_device())
    except Exception:
        get_device, get_stream = cuda.current_device, lambda device: cuda.current_stream(device).cuda_stream
    return library, get_device, get_stream
