"""Attempts to build an extension with light stand-ins for PyTorch's headers."""

from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension

from workers.backends.support import light_headers


def counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Use the stand-ins for extensions that are built in `folder`; the list gets an entry for each
    attempt.
    """
    original = getattr(cpp_extension, light_headers.BUILD)
    attempts: list[None] = []

    def counting(*args: Any, **kwargs: Any) -> None:
        attempts.append(None)
        original(*args, **kwargs)

    monkeypatch.setattr(cpp_extension, light_headers.BUILD, counting)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(folder / "built"))
    light_headers.use(folder / "headers", cpp_extension)
    return attempts
