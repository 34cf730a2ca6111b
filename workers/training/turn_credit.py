"""From rewards on tokens to the turns that app.domain.credit takes, and its credit
back onto the tokens.

A row is a whole trajectory: answers and the observations between them, with mask 1 for answers
only.  A turn is a run of ones; its reward is the sum of the rewards from its first token up to the
next turn, and missing where one of them is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch

from app.domain.credit import Credit, Turn


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Turns of a batch, in the order of rows and tokens."""

    places: tuple[tuple[int, int, int], ...]
    """Row, first token, and the token behind the last one."""
    turns: tuple[Turn, ...]


@torch.no_grad()
def spans(
    rewards: torch.Tensor, mask: torch.Tensor, groups: Sequence[Hashable], *, first_row: int = 0
) -> Spans:
    """Turns of rewards and mask, both (rows, tokens).  `groups`: one a row; `first_row`: number of
    the first row among those of all processes.  Raises ValueError for shapes that do not fit.
    """
    if rewards.shape != mask.shape or len(groups) != len(mask):
        raise ValueError(
            "expected rewards and mask of one shape and an index per row, got"
            f" {tuple(rewards.shape)}, {tuple(mask.shape)} and {len(groups)}"
        )
    places = [
        (row, start, end) for row in range(len(mask)) for start, end in _runs(mask[row].tolist())
    ]
    turns, seen = [], dict.fromkeys(range(len(mask)), 0)
    for at, (row, start, end) in enumerate(places):
        seen[row] += 1
        following = (
            places[at + 1][1]
            if at + 1 < len(places) and places[at + 1][0] == row
            else rewards.shape[1]
        )
        total = float(rewards[row, start:following].sum())
        reward = None if math.isnan(total) else total
        turns.append(
            Turn(
                group=groups[row],
                trajectory=first_row + row,
                index=seen[row],
                reward=reward,
                tokens=end - start,
            )
        )
    return Spans(places=tuple(places), turns=tuple(turns))


@torch.no_grad()
def spread(
    found: Spans, credited: Sequence[Credit], like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns on the tokens of their turns, (rows, tokens) as `like`;
    0 elsewhere and where missing.
    """
    advantages, returns = torch.zeros_like(like), torch.zeros_like(like)
    for (row, start, end), one in zip(found.places, credited, strict=True):
        advantages[row, start:end] = one.advantage or 0.0
        returns[row, start:end] = one.score or 0.0
    return advantages, returns


@torch.no_grad()
def at_turn_ends(rewards: Sequence[Sequence[float | None]], mask: torch.Tensor) -> torch.Tensor:
    """Turn rewards on the last tokens of their turns, (rows, tokens); NaN for a missing one.

    Raises ValueError where a row of the mask has another number of turns than of rewards."""
    found = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    for row, told in enumerate(rewards):
        ends = [end for _, end in _runs(mask[row].tolist())]
        if len(ends) != len(told):
            raise ValueError(
                f"row {row}: expected {len(told)} turns, one for each reward, got {len(ends)} in"
                " the mask"
            )
        for end, reward in zip(ends, told, strict=True):
            found[row, end - 1] = math.nan if reward is None else reward
    return found


def _runs(mask: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Start and end of every run of ones."""
    start = None
    for at, value in enumerate([*mask, 0]):
        if value and start is None:
            start = at
        elif not value and start is not None:
            yield start, at
            start = None
