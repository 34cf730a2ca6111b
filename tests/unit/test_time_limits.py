"""Limits of processor time for a problem's code."""

import signal
import time
from contextlib import suppress

import pytest
import torch

from workers.backends.support.dispatch_mode import Limited, Watching
from workers.backends.support.time_limit import TimeLimit

SHORT_S, CAUGHT_S, LONG_S = 0.02, 0.2, 5.0

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A signal may come in a callback of the garbage collector, in which hypothesis measures it: Python
ignores the error there, and the next signal raises it again.
"""


def endless(x: torch.Tensor) -> torch.Tensor:
    while True:
        x = x + 1


def patient(x: torch.Tensor, until: float) -> torch.Tensor:
    """Catch every error until a time, as a problem's code may."""
    while time.process_time() < until:
        try:
            endless(x)
        except TimeoutError:
            continue
    return endless(x)


def spin() -> None:
    while True:
        pass


def test_a_loop_without_operators_ends() -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.02 s"), TimeLimit(SHORT_S):
        spin()


def test_a_loop_of_operators_ends_with_and_without_a_mode() -> None:
    for context in (torch.no_grad(), Limited()):
        with pytest.raises(TimeoutError), TimeLimit(SHORT_S), context:
            endless(torch.zeros(1))


def test_an_error_that_is_caught_comes_again() -> None:
    began = time.process_time()
    with pytest.raises(TimeoutError), TimeLimit(SHORT_S):
        patient(torch.zeros(1), began + CAUGHT_S)
    assert time.process_time() - began > CAUGHT_S


def test_an_operator_of_many_operators_ends_under_a_mode() -> None:
    layer = torch.nn.GRU(4, 4)
    x = torch.rand(1 << 17, 1, 4)
    began = time.process_time()
    with torch.no_grad(), pytest.raises(TimeoutError), TimeLimit(SHORT_S), Limited():
        layer(x)
    assert time.process_time() - began < LONG_S


def test_the_first_of_nested_limits_ends_a_call() -> None:
    for inner_s, outer_s in ((SHORT_S, LONG_S), (LONG_S, SHORT_S)):
        with (
            TimeLimit(outer_s),
            pytest.raises(TimeoutError, match=r"within 0\.02 s"),
            TimeLimit(inner_s),
        ):
            endless(torch.zeros(1))


def test_an_outer_limit_stays_after_an_inner_one() -> None:
    def both() -> None:
        with suppress(TimeoutError), TimeLimit(SHORT_S):
            endless(torch.zeros(1))
        endless(torch.zeros(1))

    with pytest.raises(TimeoutError, match=r"within 0\.1 s"), TimeLimit(0.1):
        both()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_limit_that_is_not_reached_leaves_no_timer() -> None:
    with TimeLimit(LONG_S):
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 1
        x = torch.zeros(1) + 1
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert float(x) == 1
    TimeLimit.require_time()


def test_a_limit_within_a_bound_ends_with_it() -> None:
    with (
        TimeLimit.at_most(SHORT_S),
        pytest.raises(TimeoutError, match="within 5 s"),
        TimeLimit(LONG_S),
    ):
        endless(torch.zeros(1))
    with pytest.raises(TimeoutError), TimeLimit.at_most(0.0):
        pass


def test_modes_are_left_in_order_after_a_limit() -> None:
    class Slow(Watching):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            until = time.process_time() + 0.0005
            while time.process_time() < until:
                pass
            return func(*args, **(kwargs or {}))

    for _ in range(5):
        with pytest.raises(TimeoutError), TimeLimit(SHORT_S), Slow(), Limited():
            endless(torch.zeros(1))
        assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []
