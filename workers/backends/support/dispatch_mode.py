"""Base classes of dispatch modes, which intercept every operator of torch, and the tensors that an
operator writes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from workers.backends.support.time_limit import TimeLimit


def _limited(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(dispatch)
    def limited(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if TimeLimit._over is not None:
            TimeLimit.require_time()
        return dispatch(self, func, types, args, kwargs)

    return limited


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base class of dispatch modes.  A direct subclass of torch's class imports
    torch's compiler with the first operator: eight hundred modules, which take every
    new process a second or more.  Each operator looks at the time limit (time_limit.py).
    """

    def __init_subclass__(cls, **more):  # type: ignore[no-untyped-def]
        """Let operators look at the time limit."""
        super().__init_subclass__(**more)  # type: ignore[no-untyped-call]
        if "__torch_dispatch__" in vars(cls):
            cls.__torch_dispatch__ = _limited(cls.__torch_dispatch__)  # type: ignore[method-assign]

    def __init__(self) -> None:
        """Without parameters of its own."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._eager = ExitStack()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch's compiler is not in use while a mode is active."""
        return False

    def __enter__(self) -> Self:
        """Activate the mode.  Code that torch.compile has compiled, or would, runs as operators:
        a mode sees none of the operators of compiled code, and a function that must be compiled as
        a whole (`fullgraph=True`) fails under a mode.
        """
        if "torch._dynamo" in sys.modules:
            self._eager.enter_context(torch.compiler.set_stance("force_eager"))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        """Deactivate the mode."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._eager.close()


class Limited(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that does nothing but end with a time limit, at the next operator."""

    supports_higher_order_operators = True
    """Operators that take functions (`flex_attention`, `cond`, `scan`) run as without the mode;
    torch refuses them under any other.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors that an operator writes into, by its schema; those of a list one by one."""
    found: list[torch.Tensor] = []
    for index, name in _written_arguments(func):
        value = args[index] if index < len(args) else kwargs.get(name)
        several = value if isinstance(value, list | tuple) else (value,)
        found += [each for each in several if isinstance(each, torch.Tensor)]
    return found


@functools.cache
def _written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    """Indices and names of the arguments that an operator writes into."""
    return tuple(
        (index, each.name)
        for index, each in enumerate(func._schema.arguments)
        if each.alias_info is not None and each.alias_info.is_write
    )
