"""CUDA C++ through torch.utils.cpp_extension.  Needs a GPU and nvcc; the CPU device
refuses such jobs beforehand.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from workers.backends import base
from workers.backends.recording.recorder import Recorder


class CudaBackend:
    """Executes the source, which compiles its extension while it is imported."""

    def build(self, path: Path, recorder: Recorder) -> ModuleType:  # noqa: ARG002 (the profiler records)
        """See base.Backend."""
        return base.execute(path)
