"""The limit of calls in flight, as arithmetic and against simulated servers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.endpoints import congestion
from app.endpoints.congestion import CallOutcome, State


def window(count: int, sent_s: float = 100.0, **fields) -> list[CallOutcome]:
    return [CallOutcome(**{"sent_s": sent_s, "ok": True, **fields}) for _ in range(count)]


def after(
    state: State, outcomes: list[CallOutcome], now_s: float = 101.0, most: int = 500
) -> State:
    return congestion.after(state, outcomes, now_s=now_s, most=most)


def test_the_limit_doubles_until_the_first_cut_and_then_grows_by_one():
    state = after(State(limit=8), window(8))
    assert state.limit == 16
    state = after(state, [*window(15), CallOutcome(sent_s=100, congested=True)])
    assert (state.limit, state.doubling) == (12.8, False)
    assert after(state, window(12, sent_s=102)).limit == 13.8


def test_refusals_of_calls_before_a_cut_do_not_cut_again():
    state = State(limit=10, cut_s=100.0, doubling=False)
    late = window(3, sent_s=99.0, ok=False, congested=True)
    assert after(state, late, now_s=200.0).limit == 10
    early = window(3, sent_s=100.5, ok=False, congested=True)
    assert after(state, early, now_s=101.0).limit == 10
    assert after(state, early, now_s=120.0).limit == 8


def test_slow_first_tokens_cut_without_any_refusal():
    state = after(State(limit=8), window(8, first_token_s=0.5))
    assert state.base_s == 0.5
    assert after(state, window(16, first_token_s=0.9)).limit == state.limit
    assert after(state, window(16, first_token_s=1.2)).limit < state.limit


def test_noise_of_short_first_tokens_is_no_sign():
    state = State(limit=8, base_s=0.01)
    assert after(state, window(8, first_token_s=0.2)).limit > 8


def test_successes_of_an_idle_limit_do_not_raise_it():
    assert after(State(limit=8), window(8, busy=False)).limit == 8


def test_failures_that_are_no_congestion_leave_the_limit():
    assert after(State(limit=8), window(8, ok=False)).limit == 8


OUTCOMES = st.builds(
    CallOutcome,
    sent_s=st.floats(0, 1000),
    congested=st.booleans(),
    ok=st.booleans(),
    first_token_s=st.none() | st.floats(0, 100),
    busy=st.booleans(),
)


@given(st.lists(st.lists(OUTCOMES, max_size=30), max_size=8), st.integers(1, 500))
def test_the_limit_stays_in_its_bounds(windows, most):
    state = State(limit=min(congestion.START, most))
    for now, outcomes in enumerate(windows):
        state = after(state, outcomes, now_s=float(now * 20), most=most)
        assert 1 <= state.limit <= most


def simulate(capacity: int, windows: int, *, refuses: bool, late: float = 0.1) -> list[float]:
    """Limits over time at a server with so many places and 2 s a call.  It refuses calls beyond
    them, or lets it wait, which the times to the first token show.  `late`: time to the first token
    of a call that does not wait, from the middle on; 0.1 s before.
    """
    state, limits, now_s = State(), [], 0.0
    for number in range(windows):
        count = max(congestion.SAMPLES, int(state.limit))
        waiting = max(0, int(state.limit) - capacity)
        least_s = late if number > windows / 2 else 0.1
        outcomes = window(count, sent_s=now_s, first_token_s=least_s + 2.0 * waiting / capacity)
        if refuses and waiting:
            outcomes = [*outcomes[:-1], CallOutcome(sent_s=now_s, congested=True)]
        now_s += 20.0
        state = after(replace(state), outcomes, now_s=now_s, most=1000)
        limits.append(state.limit)
    return limits


def test_the_limit_finds_the_capacity_of_a_server_that_refuses():
    settled = simulate(60, 60, refuses=True)[20:]
    assert min(settled) >= 45
    assert max(settled) <= 65


def test_the_limit_finds_the_capacity_of_a_server_that_queues():
    settled = simulate(60, 60, refuses=False)[20:]
    assert min(settled) >= 45
    assert max(settled) <= 80


def test_first_tokens_of_longer_prompts_are_no_queue():
    """Turn three of a dialogue has ten times the prompt of turn one: no cut makes
    its first token faster.
    """
    settled = simulate(60, 120, refuses=False, late=1.0)[80:]
    assert min(settled) >= 45
    assert max(settled) <= 120


def test_a_window_without_times_forgets_no_cut():
    state = State(limit=10, base_s=0.1, cut_s=0.0, doubling=False, slow_s=1.0, useless=1)
    assert after(state, window(3, first_token_s=1.0)).useless == 1
    assert after(state, window(8, first_token_s=0.1)).useless == 0


def test_a_cut_of_before_the_clock_was_set_back_does_not_count_for_ever():
    state = State(limit=10, cut_s=20_000.0, doubling=False)
    state = after(state, window(3, sent_s=200.0), now_s=200.0)
    assert state.cut_s == 200.0
    assert after(state, window(12, sent_s=201.0), now_s=210.0).limit > 10
