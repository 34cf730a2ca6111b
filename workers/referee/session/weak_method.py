"""A bound method that does not keep its object alive.

An evaluation's calls hold a record, and the record asks the calls for expected outputs.  If both
references were strong, gigabytes of device memory would stay until Python's next collection of
cycles, which counts objects, not bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def weak_method(method: Callable[P, R]) -> Callable[P, R]:
    """The method without a strong reference to its object; raises ReferenceError
    once the object is gone.
    """
    found = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = found()
        if bound is None:
            raise ReferenceError("expected calls of a running evaluation, got one that has ended")
        return bound(*args, **kwargs)

    return call
