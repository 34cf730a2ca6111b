"""Mismatch of stored turns agrees with the trainer's own masks and metrics
(workers/training), which use torch.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from app.domain.credit import CreditError, Turn, mismatch
from app.domain.credit.mismatch import Pair
from app.domain.credit.rejection import Level

torch = pytest.importorskip("torch")

ROWS = ((0, 5), (0, 3), (1, 7), (2, 2), (2, 4), (2, 6))
"""(trajectory, tokens) of each turn."""


def drawn(spread: float, seed: int = 0) -> list[Pair]:
    draw = random.Random(seed)
    found = []
    for _, tokens in ROWS:
        rollout = [-draw.expovariate(1.0) for _ in range(tokens)]
        found.append(Pair(train=[one + draw.gauss(0, spread) for one in rollout], rollout=rollout))
    return found


def turns(pairs: list[Pair]) -> list[Turn]:
    return [
        Turn(
            group="p",
            trajectory=trajectory,
            index=place,
            reward=float(place),
            tokens=tokens,
            correct=place % 2 == 0,
            ratios=pair.ratios,
        )
        for place, ((trajectory, tokens), pair) in enumerate(zip(ROWS, pairs, strict=True))
    ]


def matrices(pairs: list[Pair]) -> tuple[Any, Any, Any]:
    widest = max(tokens for _, tokens in ROWS)
    train, rollout, mask = (torch.zeros(len(ROWS), widest, dtype=torch.float64) for _ in range(3))
    for place, pair in enumerate(pairs):
        size = len(pair.train)
        train[place, :size] = torch.tensor(pair.train, dtype=torch.float64)
        rollout[place, :size] = torch.tensor(pair.rollout, dtype=torch.float64)
        mask[place, :size] = 1
    return train, rollout, mask


@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.3, 30.0])
def test_metrics_are_those_of_the_trainer(spread: float) -> None:
    from workers.training import mismatch as trainer

    pairs = drawn(spread)
    assert mismatch.metrics(pairs) == pytest.approx(
        trainer.metrics(*matrices(pairs)), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("spread", [1e-3, 0.3])
def test_rejection_is_that_of_the_trainer(level: Level, spread: float) -> None:
    from workers.training import mismatch as trainer

    pairs = drawn(spread)
    train, rollout, mask = matrices(pairs)
    trajectory = torch.tensor([one for one, _ in ROWS])
    of_turns = turns(pairs)
    for outcome in mismatch.survey(of_turns, level=level, veto=0.5):
        lower, upper = outcome.mismatch.lower, outcome.mismatch.upper
        kept = trainer.rejection_mask(
            train - rollout,
            mask,
            level=trainer.Level(level),
            lower=lower,
            upper=upper,
            trajectory=trajectory,
        )
        both = kept * trainer.veto_mask(train - rollout, mask, below=0.5)
        stays = [bool(row.any()) for row in both]
        assert outcome.turns == sum(not row.any() for row in kept)
        assert outcome.turns + outcome.vetoed == stays.count(False)
        assert outcome.token_share == pytest.approx(1 - float(both.sum() / mask.sum()))
        lost = sum(turn.correct for turn, one in zip(of_turns, stays, strict=True) if not one)
        assert (outcome.credited, outcome.credited_lost) == (lost, pytest.approx(lost / 3))


def test_shares_tell_whether_good_kernels_are_dropped() -> None:
    pairs = [Pair(train=[-1.0, -1.0], rollout=[-1.0, -1.0])] * 3
    off = Pair(train=[-1.0, -3.0], rollout=[-1.0, -1.0])
    vetoed = Pair(train=[-12.0, *[-1.0] * 9], rollout=[-1.0, *[-1.0] * 9])
    found = [
        replace(turn, group="p", trajectory=place, ratios=pair.ratios, tokens=len(pair.train))
        for place, (turn, pair) in enumerate(
            zip(turns(drawn(0.0)), [*pairs, off, vetoed, off], strict=True)
        )
    ]
    narrow, wide = mismatch.survey(found, bounds=[(0.9, 1.1), (0.1, 10)])
    assert (narrow.turns, narrow.vetoed, narrow.trajectories) == (3, 0, 3)
    assert (narrow.credited_of_dropped, narrow.credited_of_kept) == (
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
    )
    assert (narrow.reward_of_dropped, narrow.reward_of_kept) == (
        pytest.approx(4.0),
        pytest.approx(1.0),
    )
    assert (wide.turns, wide.vetoed, wide.credited_of_dropped) == (0, 1, 1.0)
    (none,) = mismatch.survey(found[:3], bounds=[(0.5, 2)])
    assert (none.share, none.credited_of_dropped, none.reward_of_dropped) == (0, None, None)


def test_bad_input_is_named() -> None:
    with pytest.raises(CreditError, match="expected 1 log probabilities of the trainer, got 2"):
        Pair(train=[-1.0, -1.0], rollout=[-1.0])
    with pytest.raises(CreditError, match="response tokens, got none"):
        mismatch.metrics([Pair(train=[], rollout=[])])
    with pytest.raises(CreditError, match="expected 0 < lower <= 1 <= upper"):
        mismatch.survey(turns(drawn(0.1)), bounds=[(2.0, 1.0)])
    far = mismatch.metrics([Pair(train=[-1e-9], rollout=[-1e6])])
    assert all(math.isfinite(one) for name, one in far.items() if name not in ("rollout_ppl",))


def test_a_survey_of_no_turns_is_refused() -> None:
    with pytest.raises(CreditError, match="expected turns, got none"):
        mismatch.survey([])
