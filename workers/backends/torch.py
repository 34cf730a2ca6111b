"""Plain PyTorch: no kernels of its own; for baselines, algebraic rewrites and tests."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from workers.backends import base
from workers.backends.recording.recorder import Recorder


class TorchBackend:
    """Executes the source as it is."""

    def build(self, path: Path, recorder: Recorder) -> ModuleType:  # noqa: ARG002 (nothing to record)
        """See base.Backend."""
        return base.execute(path)
