"""Device memory of confined processes: laid out as PyTorch lays it out by default,
and shared by descriptors.

Outputs are read in place, so torch's memory must have descriptors, which memory of cudaMalloc
lacks.  torch's expandable segments have them, but place all tensors one after the other, and the
time of some kernels depends on the addresses of their tensors: one transposed convolution of cuDNN
took 4.9 or 6.4 ms, another 9.0 to 9.8 ms, in processes with identical code; with the default
allocator processes agree within 0.5 % (H200, `python -m tests.bench.memory_layout`).  So confined
processes keep the default allocator and get their segments from a cudaMalloc that makes them
shareable (workers/shims/device_malloc.c).  It is compiled when a referee starts.  Without a C
compiler, which Triton needs as well, expandable segments are used.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import subprocess
import tempfile
from pathlib import Path

from workers.protocol.paths import LOCK_FOLDER

_SOURCE = Path(__file__).parents[2] / "shims" / "device_malloc.c"

_COMPILER_S = 60.0
"""Limit for the compiler in seconds; it takes a tenth of a second."""

_PIECES = "expandable_segments:True,large_segment_size_mb:64"
"""One descriptor covers one piece, and pieces have 20 MB by default: sharing the pieces of
outputs of 1 GB took 300 ms (H200).
"""

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": _PIECES, "PYTORCH_ALLOC_CONF": _PIECES}
"""Settings of expandable segments; both names of the variable are in use."""

_log = logging.getLogger(__name__)


def environment() -> dict[str, str]:
    """Environment variables that make all of a process's torch memory shareable."""
    try:
        return {"LD_PRELOAD": str(_library())}
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        _log.warning(
            "device memory comes from expandable segments, where times depend more on"
            " addresses: %s",
            said,
        )
        return EXPANDABLE


def _library() -> Path:
    """The compiled library, kept beside the locks of this user's referees.  Raises
    OSError or SubprocessError.
    """
    name = f"device_malloc-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}.so"
    library = _private(LOCK_FOLDER) / name
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=LOCK_FOLDER) as folder:
            compiled = Path(folder) / name
            compiler = [
                "cc",
                "-O2",
                "-shared",
                "-fPIC",
                "-o",
                str(compiled),
                str(_SOURCE),
                "-ldl",
                "-lpthread",
            ]
            subprocess.run(
                compiler, check=True, capture_output=True, text=True, timeout=_COMPILER_S
            )
            compiled.replace(library)
    return library


def _private(folder: Path) -> Path:
    """A folder into which no other user can have put a library.  Raises PermissionError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = folder.lstat()
    if not stat.S_ISDIR(known.st_mode) or known.st_uid != os.getuid() or known.st_mode & 0o077:
        raise PermissionError(f"{folder}: expected a folder that only this user can open")
    return folder
