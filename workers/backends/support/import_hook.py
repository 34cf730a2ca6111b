"""Import hook: changes to a module as soon as any code imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def once_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change` with the module of that name once it is imported: now, if it is already."""
    module = sys.modules.get(name)
    if module is not None:
        change(module)
    else:
        sys.meta_path.insert(0, _Waiting(name, change))


class _Waiting(MetaPathFinder):
    """Finder, first in the search order, that waits for one module."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._change = change

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (as the interpreter calls it)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec that the other finders return, executed with the change; None for
        other modules.
        """
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                self._change(module)

            loader.exec_module = execute_and_change
        return spec
