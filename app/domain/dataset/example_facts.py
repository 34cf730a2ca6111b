"""EXPORT: facts that an example is made of: columns of datasets, credits, and choices about its
row.
"""

from __future__ import annotations

from typing import NamedTuple


class EvaluationFacts(NamedTuple):
    """Evaluation fields available to a row; ids as text.  The credited figures are None for hacks.

    Each is a column of datasets with provenance, in this order, but for those of INTERNAL."""

    problem: str
    source_set: str
    level: int | None
    entry_point: str
    family: str
    backend: str
    run: str | None
    model: str | None
    turn: int | None
    status: str
    verdict: str | None
    reviewed: bool
    speedup: float | None
    speedup_ci_low: float | None
    speedup_ci_high: float | None
    device_speedup: float | None
    device_speedup_ci_low: float | None
    device_speedup_ci_high: float | None
    reference_us: float | None
    candidate_us: float | None
    coverage_time: float | None
    baseline: str
    device_class: str
    device_name: str
    protocol: str
    reference_sha256: str
    source_sha256: str
    trajectory_id: str | None
    evaluation_id: str
    problem_licence: str | None
    model_licence: str | None
    verdict_id: str | None
    turn_id: str | None
    problem_id: str
    correct: bool
    measured_speedup: float | None
    coverage_count: float | None
    sample: str | None = None
    """Label of its trajectory: the sample's name in its source."""


INTERNAL = frozenset(
    {
        "verdict_id",
        "turn_id",
        "problem_id",
        "correct",
        "measured_speedup",
        "coverage_count",
        "sample",
    }
)
"""Facts that are no columns of datasets."""


class TurnCredits(NamedTuple):
    """Credit of the turns of a row's dialogue, in order, the row's own last
    (app.domain.credit.Credit).
    """

    group: str
    """Run, problem and backend."""
    rewards: tuple[float | None, ...]
    scores: tuple[float | None, ...]
    advantages: tuple[float | None, ...]
    left_out: tuple[str | None, ...]
    """Reasons to leave a turn out of the loss."""


class Extra(NamedTuple):
    """Fields added by selection; None where the kind of row has no use for them."""

    why: str | None = None
    """Reason for the preference, for a pair."""
    label: bool | None = None
    """Label, for a labelled answer."""
    train: tuple[int, ...] | None = None
    """Turns to learn, counted from 0, for a masked dialogue."""
    pass_rate: float | None = None
    """Share of correct and clean attempts, for a prompt."""
    attempts: int | None = None
    rewards: tuple[float, ...] | None = None
    """Rewards of a turn: each of `app.domain.dataset.sampling.SCORES`, in order."""
    returns: tuple[float | None, ...] | None = None
    """Returns from this turn on, one per reward; None if a reward is missing by the
    service's fault.
    """
    credit: TurnCredits | None = None
    """None if advantages were not requested, and for a candidate without a run."""
