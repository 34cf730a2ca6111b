"""Grids that are lists, in Triton's interpreter.

Compiled kernels take them (`grid = lambda meta: [triton.cdiv(n, meta["BLOCK"])]`, as in Triton's
tutorial of grouped products); the interpreter appends a tuple to the grid, which a list refuses.
"""

from __future__ import annotations

from typing import Any

from triton.runtime.interpreter import GridExecutor


def install() -> None:
    """Make interpreted launches take grids that are lists."""
    executor: Any = GridExecutor
    prepare = executor.__init__

    def prepared(self: Any, function: Any, names: Any, grid: Any, *args: Any, **more: Any) -> None:
        def asked(options: dict[str, Any]) -> Any:
            return _unlisted(grid(options))

        taken = asked if callable(grid) else _unlisted(grid)
        prepare(self, function, names, taken, *args, **more)

    executor.__init__ = prepared


def _unlisted(grid: Any) -> Any:
    return tuple(grid) if isinstance(grid, list) else grid
