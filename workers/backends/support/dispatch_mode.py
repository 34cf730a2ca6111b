"""Base classes of dispatch modes, which intercept every operator of torch, and the tensors that an
operator writes.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base class of dispatch modes.  A direct subclass of torch's class imports
    torch's compiler with the first operator: eight hundred modules, which take every
    new process a second or more.
    """

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


class TimeLimit(Watching):  # type: ignore[no-untyped-call]
    """Context that raises TimeoutError at the first operator after a time limit.  Timers may pause
    the process, so the limit is one of its processor time.
    """

    supports_higher_order_operators = True
    """Operators that take functions (`flex_attention`, `cond`, `scan`) run as without the mode;
    torch refuses them under any other.
    """

    bounds: ClassVar[list[float]] = [math.inf]
    """Moments of processor time that no limit exceeds, innermost last."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: seconds of processor time from now on."""
        super().__init__()
        self._limit_s = limit_s
        self._until = min(time.process_time() + limit_s, *self.bounds)

    @classmethod
    @contextmanager
    def at_most(cls, limit_s: float) -> Iterator[None]:
        """Context in which limits end within `limit_s`.  It is no mode itself: each takes its time
        with every operator.  Raises TimeoutError if none is left.
        """
        if limit_s <= 0:
            raise TimeoutError("expected time to be left")
        cls.bounds.append(time.process_time() + limit_s)
        try:
            yield
        finally:
            cls.bounds.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if time.process_time() > self._until:
            raise TimeoutError(f"expected the model to end within {self._limit_s:g} s")
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
