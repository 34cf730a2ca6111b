"""The depth of the stack at which a model is called."""

import sys
import threading
from collections.abc import Callable

from workers.shims.stack_depth import DEPTHS, at_random_depth


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _nested(levels: int, call: Callable[[], int]) -> int:
    return _nested(levels - 1, call) if levels else call()


def _in_a_thread(call: Callable[[], None]) -> None:
    """Run it below few frames, as in a process of a shim."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_callers_at_other_depths_make_calls_at_the_same_depths() -> None:
    seen: dict[int, set[int]] = {}

    def look() -> None:
        for levels in (0, 3, 9):
            seen[levels] = {_nested(levels, lambda: at_random_depth(_depth)) for _ in range(1000)}

    _in_a_thread(look)
    assert seen[0] == seen[3] == seen[9]
    assert len(seen[0]) == DEPTHS


def test_the_result_is_that_of_the_call() -> None:
    assert at_random_depth(lambda: 7) == 7
