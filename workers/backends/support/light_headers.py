"""Extensions compiled with light stand-ins for PyTorch's largest headers.

`<torch/extension.h>` takes three times as long to compile as the tensors, operators and dispatch
macros that extensions use of it (18.9 and 7.7 s of processor time with g++ 12, torch 2.11).  An
extension that does not compile with the stand-ins (headers/torch) is compiled with PyTorch's own
headers, and fails only with those.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HEADERS = {
    f"torch/{path.name}": path.read_bytes()
    for path in Path(__file__).with_name("headers").glob("torch/*.h")
}
"""Stand-ins by name in an `#include`.  They are read when this module is imported: a confined
process does not see its folder.
"""

BUILD = "_write_ninja_file_and_build_library"
"""Function of torch.utils.cpp_extension that compiles and links an extension (torch 2.11)."""


def use(folder: Path, module: Any) -> None:
    """Make `module`, torch.utils.cpp_extension, compile with the stand-ins first, which are written
    to `folder`.  A torch without the function BUILD compiles with its own headers alone.
    """
    build = getattr(module, BUILD, None)
    if build is not None:
        setattr(module, BUILD, _light_first(build, folder))


def _light_first(build: Callable[..., None], folder: Path) -> Callable[..., None]:
    """The function `build`, tried with the stand-ins first and without its messages then."""

    @functools.wraps(build)
    def light_first(*args: Any, **kwargs: Any) -> None:
        try:
            with _searched_first(_written(folder)):
                build(*args, **{**kwargs, "verbose": False})
        except RuntimeError:  # the compiler's; objects that were compiled stay
            build(*args, **kwargs)

    return light_first


def _written(folder: Path) -> Path:
    """The folder, with the stand-ins in it."""
    for name, content in HEADERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@contextmanager
def _searched_first(folder: Path) -> Iterator[None]:
    """Context in which compilers look for headers in `folder` before PyTorch's folders, which are
    system folders to them.
    """
    before = os.environ.get("CPATH")
    os.environ["CPATH"] = os.pathsep.join(filter(None, (str(folder), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["CPATH"]
        else:
            os.environ["CPATH"] = before
