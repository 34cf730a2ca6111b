"""Compilers for a candidate's C++ and CUDA sources (torch.utils.cpp_extension): their
locations, and those that are missing.

They run inside the sandbox, where only /usr, this Python's folders and CUDA_HOME are visible.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

MAX_JOBS = 4
"""Compiler processes at a time.  A candidate has two or three files; the other cores
belong to timed evaluations.
"""

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
_NVCC = Path("bin/nvcc")


def cuda_home() -> Path | None:
    """Folder of the CUDA toolkit: CUDA_HOME, else the system's folder, else one
    among Python's packages.

    PATH is not searched: a program found there may be a wrapper, and torch takes the
    folder above it for CUDA's.
    """
    packages = [Path(entry) / "nvidia" for entry in sys.path if entry.endswith("-packages")]
    told = [Path(os.environ["CUDA_HOME"])] if os.environ.get("CUDA_HOME") else []
    system = [
        Path("/usr/local/cuda"),
        *sorted(Path("/usr/local").glob("cuda-*")),
        Path("/usr/lib/nvidia-cuda-toolkit"),
    ]
    installed = [found for folder in packages for found in sorted(folder.glob("cu[0-9]*"))]
    return next((each for each in [*told, *system, *installed] if (each / _NVCC).is_file()), None)


def environment() -> dict[str, str]:
    """Environment variables by which a confined process finds the compilers."""
    home = cuda_home()
    own = [str(Path(sys.prefix) / "bin"), *([str(home / "bin")] if home else [])]
    found = {"PATH": os.pathsep.join([*own, *_SYSTEM]), "MAX_JOBS": str(MAX_JOBS)}
    return found | ({"CUDA_HOME": str(home)} if home else {})


def missing(*, cuda: bool) -> list[str]:
    """Programs that this host lacks to compile C++ and, with `cuda`, CUDA C++."""
    path = environment()["PATH"]
    needed = ("c++", "ninja", *(("nvcc",) if cuda else ()))
    return [name for name in needed if shutil.which(name, path=path) is None]
