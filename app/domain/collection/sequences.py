"""COLLECT: token-level rows for reinforcement learning, from the ids that the server gave.

Turns are one row as long as each prompt begins with the tokens before it: prompts have mask 0,
answers mask 1 and the logprobs of the policy that sampled them.  A prompt that is no such extension
(another context, reasoning dropped, a template that rewrites history) begins a row of its own, so
that no token is trained on that was not sampled after these tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TokenTurn:
    """One answered call with its tokens."""

    key: str
    """Key of the sequence's node."""
    model_call_id: str
    prompt: Sequence[int]
    answer: Sequence[int]
    logprobs: Sequence[float]
    reward: float | None
    """None: a fault; the turn is in no group's baseline."""
    turn_id: str | None = None
    """Stored turn of the answer."""


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """One row: tokens with their mask, logprobs and the reward of each turn."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    """0 where the mask is 0."""
    turn_ends: tuple[int, ...]
    """Index of the last token of each answer."""
    turn_rewards: tuple[float | None, ...]
    nodes: tuple[str, ...]
    model_call_ids: tuple[str, ...]
    turn_ids: tuple[str | None, ...]

    def as_json(self) -> dict[str, Any]:
        """The row."""
        return {name: list(value) for name, value in vars(self).items()}


def joined(turns: Iterable[TokenTurn]) -> list[TokenRow]:
    """Rows of one line of attempts, in the order of its turns.  Turns without tokens are left out.

    Raises ValueError where an answer has another number of logprobs than of tokens."""
    rows: list[list[TokenTurn]] = []
    for turn in turns:
        if len(turn.logprobs) != len(turn.answer):
            raise ValueError(
                f"{turn.key}: expected {len(turn.answer)} logprobs, got {len(turn.logprobs)}"
            )
        if not turn.answer:
            continue
        if rows and _extends(rows[-1][-1], turn):
            rows[-1].append(turn)
        else:
            rows.append([turn])
    return [_row(each) for each in rows]


def _extends(before: TokenTurn, turn: TokenTurn) -> bool:
    known = [*before.prompt, *before.answer]
    return len(turn.prompt) > len(known) and list(turn.prompt[: len(known)]) == known


def _row(turns: Sequence[TokenTurn]) -> TokenRow:
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    ends = []
    for turn in turns:
        new = turn.prompt[len(ids) :]
        ids += [*new, *turn.answer]
        mask += [0] * len(new) + [1] * len(turn.answer)
        logprobs += [0.0] * len(new) + list(turn.logprobs)
        ends.append(len(ids) - 1)
    return TokenRow(
        ids=tuple(ids),
        mask=tuple(mask),
        logprobs=tuple(logprobs),
        turn_ends=tuple(ends),
        turn_rewards=tuple(turn.reward for turn in turns),
        nodes=tuple(turn.key for turn in turns),
        model_call_ids=tuple(turn.model_call_id for turn in turns),
        turn_ids=tuple(turn.turn_id for turn in turns),
    )
