"""EXPORT: pairs of a chosen and a rejected answer to the same prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.domain import keyed_random
from app.domain.dataset.attempt import Attempt
from app.domain.dataset.selection import PairOf, Spec
from app.domain.verdict import Label


class Pair(NamedTuple):
    """Two answers to one prompt."""

    chosen: Attempt
    rejected: Attempt
    why: PairOf

    @property
    def answers(self) -> frozenset[int]:
        """Places of both answers, whichever is the better one."""
        return frozenset((self.chosen.place, self.rejected.place))


def pairs(chosen: Sequence[Attempt], others: Sequence[Attempt], spec: Spec) -> list[Pair]:
    """For each chosen answer, worse answers to the same history of the same cell: of each sort at
    most `pairs_per_chosen`, drawn by the seed.
    """
    found: list[Pair] = []
    for better in chosen:
        if better.prompt is None:
            continue
        rivals = [
            one
            for one in others
            if one.prompt == better.prompt
            and one.cell == better.cell
            and one.source_sha256 != better.source_sha256
        ]
        drawn = sorted(
            rivals,
            key=lambda one: keyed_random.uniform(
                spec.seed, f"{better.evaluation_id}:{one.evaluation_id}"
            ),
        )
        for why in spec.pairs:
            found += [Pair(better, worse, why) for worse in drawn if _is_worse(worse, better, why)][
                : spec.pairs_per_chosen
            ]
    return found


def _is_worse(worse: Attempt, better: Attempt, why: PairOf) -> bool:
    match why:
        case PairOf.FAST_SLOW:
            return (
                worse.succeeded
                and worse.label == Label.CLEAN
                and worse.ci_high is not None
                and better.ci_low is not None
                and better.ci_low > worse.ci_high
            )
        case PairOf.CORRECT_WRONG:
            return not worse.correct
        case PairOf.HONEST_HACK:
            return worse.correct and worse.label == Label.HACK
        case PairOf.PREFERRED:  # said of two evaluations by name: see app.export.row_selection
            return False
