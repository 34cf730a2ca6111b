"""The interface of a backend, and the execution of a source as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol

from workers.backends.recording.recorder import Recorder


class Backend(Protocol):
    """Loader that turns a source into a module."""

    def build(self, path: Path, recorder: Recorder) -> ModuleType:
        """Execute the source at `path` as a module, with its kernels reporting to `recorder`.

        Raises the source's own errors."""
        ...


def execute(path: Path) -> ModuleType:
    """Import the file at `path` as the module `candidate`: a real file, because
    compilers read their source back.
    """
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module
