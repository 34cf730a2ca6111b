"""Device memory of confined processes: laid out as PyTorch lays it out by default, and shared by descriptors.

Outputs are read where they lie, so torch's memory must have descriptors, which memory of cudaMalloc has not.  torch's
expandable segments have them, but put all tensors one after the other, and some kernels' times depend on where their
tensors lie: one transposed convolution of cuDNN took 4.9 or 6.4 ms, another 9.0 to 9.8 ms, by processes of the same
code, where processes with the default allocator agree within 0.5 % (H200, `python -m tests.bench.memory_layout`).  So
confined processes keep the default allocator and get their segments from a cudaMalloc that makes them shareable
(workers/shims/device_malloc.c).  It is compiled when a referee starts.  Where there is no C compiler, which Triton
needs as well, expandable segments serve."""

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
"""Limit on the compiler's time, which takes a tenth of a second."""

_PIECES = "expandable_segments:True,large_segment_size_mb:64"
"""A descriptor is of one piece, and pieces are of 20 MB by default: to share those of outputs of 1 GB took 300 ms
(H200)."""

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": _PIECES, "PYTORCH_ALLOC_CONF": _PIECES}
"""Settings of expandable segments; both names are in use."""

_log = logging.getLogger(__name__)


def environment() -> dict[str, str]:
    """Environment variables by which all of a process's torch memory can be shared."""
    try:
        return {"LD_PRELOAD": str(_library())}
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        _log.warning("device memory comes from expandable segments, where times depend more on addresses: %s", said)
        return EXPANDABLE


@functools.cache
def _library() -> Path:
    """The compiled library, which is there until this process ends.  Raises OSError or SubprocessError."""
    folder = tempfile.mkdtemp(prefix="assay-device-memory-")  # mode 0700: other users can put nothing there
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = Path(folder) / "device_malloc.so"
    compiler = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"]
    subprocess.run(compiler, check=True, capture_output=True, text=True, timeout=_COMPILER_S)
    return library
