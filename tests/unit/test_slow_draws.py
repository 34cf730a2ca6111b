"""References of which an input set with its expected outputs takes long."""

import math

import pytest

from workers.referee.probes import narrow_products
from workers.referee.session.draws import REQUEST_S, SLOW_TRUTH_S, Draws


def _draws(*, draw_s: float, call_s: float = 0.0, truth_s: float = math.inf) -> Draws:
    draws = Draws.__new__(Draws)
    draws.draw_us, draws.truth_s, draws.in_block = draw_s * 1e6, truth_s, 16
    draws._call_s = call_s
    return draws


@pytest.mark.parametrize(
    ("draw_s", "truth_s", "is_slow"),
    [
        (SLOW_TRUTH_S * 2, math.inf, True),
        (SLOW_TRUTH_S / 2, math.inf, False),
        (math.inf, math.inf, False),
        (SLOW_TRUTH_S / 2, SLOW_TRUTH_S * 2, True),
    ],
)
def test_draws_are_slow_whenever_expected_outputs_are_made(
    draw_s: float, truth_s: float, *, is_slow: bool
) -> None:
    assert _draws(draw_s=draw_s, truth_s=truth_s).has_slow_draws == is_slow


@pytest.mark.parametrize(
    ("draw_s", "call_s", "kinds"),
    [
        (0.001, 0.0005, 16),
        (1.0, 0.5, 6),
        (0.1, 1.0, 3),
        (math.inf, 1.0, 3),
        (math.inf, 0.0, 16),
        (60.0, 30.0, 1),
    ],
)
def test_a_request_for_unusual_inputs_ends_in_time(
    draw_s: float, call_s: float, kinds: int
) -> None:
    draws = _draws(draw_s=draw_s, call_s=call_s)
    assert draws.kinds_at_once == kinds
    assert kinds == 1 or kinds * 4 * call_s <= REQUEST_S


@pytest.mark.parametrize(
    ("calls", "busy_s", "at_once"),
    [
        (0, 0.0, 1),
        (1, 0.1, narrow_products.AT_ONCE),
        (1, 2.5, 3),
        (4, 9.0, 1),
        (2, 12.0, 1),
        (5, 0.0, narrow_products.AT_ONCE),
    ],
)
def test_as_many_calls_are_drawn_as_there_is_time_to_look_at(
    calls: int, busy_s: float, at_once: int
) -> None:
    assert narrow_products._Tally(calls=calls, busy_s=busy_s).at_once == at_once
