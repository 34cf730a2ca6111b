"""CUDA C++ through torch.utils.cpp_extension.  Needs a GPU and nvcc; the CPU device
refuses such jobs beforehand.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import Any

from workers.backends import base
from workers.backends.recording.recorder import Recorder
from workers.backends.support import light_headers
from workers.backends.support.import_hook import once_imported

EXTENSIONS = "torch.utils.cpp_extension"


class CudaBackend:
    """Executes the source, which compiles its extension while it is imported."""

    def build(self, path: Path, recorder: Recorder) -> ModuleType:
        """See base.Backend.  Launches are seen by the driver's profiler; the recorder is told of
        extensions that are not built.
        """
        headers = path.parent / "headers"
        once_imported(EXTENSIONS, functools.partial(light_headers.use, headers))
        once_imported(EXTENSIONS, functools.partial(_report_failures, recorder))
        return base.execute(path)


def _report_failures(recorder: Recorder, module: Any) -> None:
    """Make the functions that build an extension report their failures.  `module`: EXTENSIONS."""
    for function in (module.load, module.load_inline):
        setattr(module, function.__name__, _reporting(function, recorder))


def _reporting(build: Any, recorder: Recorder) -> Any:
    """The function that builds an extension, with its failures reported."""

    @functools.wraps(build)
    def reporting(name: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return build(name, *args, **kwargs)
        except Exception as error:
            recorder.failed(f"extension {name}", error)
            raise

    return reporting
