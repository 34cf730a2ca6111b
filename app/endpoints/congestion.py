"""COLLECT: calls in flight that an endpoint is given: additive increase, multiplicative decrease.

A refusal (429, 503, 529) cuts the limit.  Servers such as vLLM never refuse, they queue: for them
the sign is the time to the first token against its own median.  Until the first cut the limit
doubles with every window of successes, afterwards it grows by one.  All of it is arithmetic on a
state that workers share (app/endpoints/rate_limit.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.domain.collection.call import ErrorKind, ModelAnswer

START = 8.0
"""Calls in flight that an endpoint is given at first."""
CUT = 0.8
"""Factor on the limit at a cut."""
COOL_S = 15.0
"""Least time between two cuts: the calls of before the first one still come back."""
SLOW_FACTOR = 2.0
"""First tokens that take so many times the base's median mean that calls queue."""
HOLD_FACTOR = 1.5
"""From this on the limit grows no more."""
SLOW_FLOOR_S = 0.25
"""Differences below this are noise of the network."""
SAMPLES = 8
"""Fewer first tokens than this in a window say nothing."""
DRIFT = 1.02
"""The base rises by this a window at most, where first tokens are a little late."""
UNMOVED = 0.9
"""A cut has not helped where first tokens take more than this share of their time before it.  Calls
that queue wait for at most CUT times as long.
"""
USELESS = 2
"""Cuts in a row without help after which late first tokens are believed: prompts are longer, or
the server is slower. The first window after a steep growth shows the queue of a lower limit, so
that one such cut proves nothing.
"""
CONGESTED = frozenset({ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED, ErrorKind.TIMEOUT_START})


@dataclass(frozen=True, kw_only=True)
class CallOutcome:
    """One call, as far as the limit is concerned."""

    sent_s: float
    """Time of its permit, in seconds of the clock that all workers share."""
    congested: bool = False
    ok: bool = False
    first_token_s: float | None = None
    busy: bool = True
    """The limit was nearly used up when it was sent: only then does its success show anything."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The limit, and the measurements it follows from."""

    limit: float = START
    base_s: float | None = None
    """Lowest median of first tokens' times of a window, drifting upwards."""
    cut_s: float | None = None
    """Time of the last cut; None before the first."""
    doubling: bool = True
    slow_s: float | None = None
    """Median of first tokens' times that caused the last cut; None where it had
    another cause, or has helped.
    """
    useless: int = 0
    """Cuts in a row that have not helped."""


def outcome(answer: ModelAnswer, *, sent_s: float, busy: bool) -> CallOutcome:
    """The outcome of a call."""
    assert answer.sent_at is not None
    first = answer.first_token_at
    waited_s = None if first is None else (first - answer.sent_at).total_seconds()
    kind = answer.error.kind if answer.error else None
    return CallOutcome(
        sent_s=sent_s,
        congested=kind in CONGESTED,
        ok=kind is None,
        first_token_s=waited_s,
        busy=busy,
    )


def after(state: State, window: Sequence[CallOutcome], *, now_s: float, most: int) -> State:
    """The state after a window of ended calls."""
    if state.cut_s is not None and state.cut_s > now_s:  # the shared clock was set back
        state = replace(state, cut_s=now_s)
    # Calls that were sent before the last cut tell of the limit of then.
    current = [one for one in window if state.cut_s is None or one.sent_s >= state.cut_s]
    medians = [one.first_token_s for one in current if one.first_token_s is not None]
    median = statistics.median(medians) if len(medians) >= SAMPLES else None
    if any(one.congested for one in current):
        return _cut(state, now_s)
    if median is not None and _slow(state, median):
        return _slower(state, median, now_s, most)
    if median is not None:
        state = replace(_with_base(state, median), slow_s=None, useless=0)
    if _held(state, median) or not any(one.ok and one.busy for one in current):
        return state
    successes = sum(one.ok for one in current)
    step = successes if state.doubling else 1.0
    return replace(state, limit=min(float(most), state.limit + step))


def _cut(state: State, now_s: float) -> State:
    if state.cut_s is not None and now_s - state.cut_s < COOL_S:
        return state
    return replace(
        state,
        limit=max(1.0, state.limit * CUT),
        cut_s=now_s,
        doubling=False,
        slow_s=None,
        useless=0,
    )


def _slower(state: State, median: float, now_s: float, most: int) -> State:
    """The state after a window with late first tokens: a cut, or a higher base and
    the limit of before the cuts.
    """
    cut = _cut(state, now_s)
    if cut is state:
        return state
    helped = state.slow_s is None or median <= UNMOVED * state.slow_s
    useless = 0 if helped else state.useless + 1
    if useless < USELESS:
        return replace(cut, slow_s=median, useless=useless)
    limit = min(float(most), state.limit / CUT**USELESS)
    return replace(state, base_s=median, limit=limit, slow_s=None, useless=0)


def _slow(state: State, median: float | None) -> bool:
    return _beyond(state, median, SLOW_FACTOR)


def _held(state: State, median: float | None) -> bool:
    return _beyond(state, median, HOLD_FACTOR)


def _beyond(state: State, median: float | None, factor: float) -> bool:
    if median is None or state.base_s is None:
        return False
    return median > max(factor * state.base_s, state.base_s + SLOW_FLOOR_S)


def _with_base(state: State, median: float) -> State:
    base_s = median if state.base_s is None else min(median, state.base_s * DRIFT)
    return replace(state, base_s=base_s)
