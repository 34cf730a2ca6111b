"""Device memory of confined processes: laid out as PyTorch lays it out by default, and shared by descriptors.

Outputs are read in place, so torch's memory must have descriptors, which memory of cudaMalloc lacks.  torch's
expandable segments have them, but place all tensors one after the other, and the time of some kernels depends on the
addresses of their tensors: one transposed convolution of cuDNN took 4.9 or 6.4 ms, another 9.0 to 9.8 ms, in processes
with identical code; with the default allocator processes agree within 0.5 % (H200, `python -m
tests.bench.memory_layout`).  So confined processes keep the default allocator and get their segments from a cudaMalloc
that makes them shareable (workers/shims/device_malloc.c).  It is compiled when a referee starts.  Without a C compiler,
which Triton needs as well, expandable segments are used."""

from __future__ import annotations

import atexit
import functools
import logging
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).parents[2] / "shims" / "device_malloc.c"

_COMPILER_S = 60.0
"""Limit for the compiler in seconds; it takes a tenth of a second."""

_PIECES = "expandable_segments:True,large_segment_size_mb:64"
"""One descriptor covers one piece, and pieces have 20 MB by default: sharing the pieces of outputs of 1 GB took 300 ms
(H200)."""

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": _PIECES, "PYTORCH_ALLOC_CONF": _PIECES}
"""Settings of expandable segments; both names of the variable are in use."""

_log = logging.getLogger(__name__)


def environment() -> dict[str, str]:
    """Environment variables that make all of a process's torch memory shareable."""
    try:
        return {"LD_PRELOAD": str(_library())}
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        _log.warning("device memory comes from expandable segments, where times depend more on addresses: %s", said)
        return EXPANDABLE


@functools.cache
def _library() -> Path:
    """The compiled library; it exists until this process ends.  Raises OSError or SubprocessError."""
    folder = tempfile.mkdtemp(prefix="assay-device-memory-")  # mode 0700: no other user can write there
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = Path(folder) / "device_malloc.so"
    compiler = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"]
    subprocess.run(compiler, check=True, capture_output=True, text=True, timeout=_COMPILER_S)
    return library
