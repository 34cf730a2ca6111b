"""EXPORT: credit of stored turns by an RL method: the one rule behind `assay
advantages`, datasets and token rows.

A group is a run, a problem and a backend; its trajectories are lines of attempts
(app.store.trajectory.attempt_lines), whatever their prompts show.  A turn with a job that failed,
is not over, or could not be measured has no reward and leaves its group before any baseline; so
does every turn of a rollout that was not brought to its end.  An answer without code counts like
one that does not compile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from app.domain import credit, reward
from app.domain.credit import (
    REASONS,
    Credit,
    CreditError,
    Declared,
    MismatchRejection,
    TokenRatios,
    Turn,
)
from app.domain.dataset.example_facts import TurnCredits
from app.export import mismatch_rejection
from app.store.figures import turn_rewards
from app.store.figures.turn_rewards import StoredTurn
from app.store.postgres.database import Connection

BYTES_A_TOKEN = 4
"""UTF-8 bytes per token: tokens are not stored with turns, so they are estimated, as in exports."""

SCHEMA = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("run", "problem", "problem_id", "backend", "trajectory_id", "turn_id")
        ),
        ("turn", pa.int64()),
        ("line", pa.string()),
        ("step", pa.int64()),
        ("evaluation_id", pa.string()),
        *((name, pa.float64()) for name in ("reward", "score", "advantage")),
        ("dropped", pa.string()),
    ]
)
"""Columns of `Book.rows`."""

COLUMNS = pa.schema(
    [
        ("credit_group", pa.string()),
        *((name, pa.float64()) for name in ("turn_reward", "turn_score", "advantage")),
        ("advantage_mask", pa.bool_()),
        ("left_out", pa.string()),
        *(
            (name, pa.list_(pa.float64()))
            for name in ("turn_rewards", "turn_scores", "turn_advantages")
        ),
        ("turn_masks", pa.list_(pa.bool_())),
    ]
)
"""Columns of rows in datasets: of the row's own turn, then of every turn of its
dialogue, its own last.
"""


@dataclass(frozen=True, kw_only=True)
class Book:
    """Turns of some runs with their credit, in one order."""

    declared: Declared
    stored: list[StoredTurn]
    results: list[Credit]

    def rows(self) -> list[dict[str, Any]]:
        """One line of SCHEMA per turn."""
        return [
            {
                "run": where.run,
                "problem": where.problem,
                "problem_id": where.problem_id,
                "backend": where.backend,
                "trajectory_id": where.trajectory_id,
                "turn_id": where.turn_id,
                "turn": where.turn,
                "line": where.line,
                "step": where.step,
                "evaluation_id": where.evaluation_id,
                "reward": one.turn.reward,
                "score": one.score,
                "advantage": one.advantage,
                "dropped": None if one.dropped is None else str(one.dropped),
            }
            for where, one in zip(self.stored, self.results, strict=True)
        ]

    def by_turn(self) -> dict[str, tuple[StoredTurn, Credit]]:
        """Turn and credit by the turn's id."""
        return {
            where.turn_id: (where, one)
            for where, one in zip(self.stored, self.results, strict=True)
        }

    def by_trajectory(self) -> dict[str, list[tuple[StoredTurn, Credit]]]:
        """Turns and credits of each trajectory, by their positions."""
        found: dict[str, list[tuple[StoredTurn, Credit]]] = {}
        for where, one in zip(self.stored, self.results, strict=True):
            found.setdefault(where.trajectory_id, []).append((where, one))
        return found

    def summary(self) -> dict[str, Any]:
        """Method, baseline, and the turns that left their groups with the reasons:
        for manifests and cards.
        """
        dropped = Counter(str(one.dropped) for one in self.results if one.dropped)
        declared = self.declared
        return {
            "method": declared.recipe.method,
            "about": declared.method.about,
            "reward": declared.reward,
            "baseline": f"rows of one {declared.method.grouping}, scores: {declared.method.score}",
            "alone": str(declared.alone),
            "recipe": msgspec.to_builtins(asdict(declared.applied)),
            "mismatch": (
                None
                if declared.mismatch is None
                else msgspec.to_builtins(asdict(declared.mismatch))
            ),
            "runs": sorted({one.run for one in self.stored}),
            "groups": len({group(one) for one in self.stored}),
            "turns": len(self.stored),
            "dropped": dict(sorted(dropped.items())),
        }


def book(
    connection: Connection,
    declared: Declared,
    *,
    as_of: datetime | None = None,
    replay: bool = False,
) -> Book:
    """Credit of every turn of the declared runs; for `as_of` and `replay` see
    `turn_rewards.of_runs`.

    Raises CreditError for an unknown run, for runs without turns, for a group measured in two ways,
    and for an advantage that is not finite.
    """
    unknown = turn_rewards.missing(connection, declared.runs)
    if unknown:
        raise CreditError(f"no run is named {', '.join(unknown)}")
    stored = turn_rewards.of_runs(connection, declared.runs, as_of=as_of, replay=replay)
    if not stored:
        raise CreditError("no run has turns")
    _require_one_cell(stored)
    turns = [turn_of(one, declared.reward) for one in stored]
    if declared.mismatch is not None:
        turns = _compared(connection, declared.mismatch, stored, turns, as_of)
    results = credit.assign(turns, declared.applied)
    for where, one in zip(stored, results, strict=True):
        if not all(value is None or math.isfinite(value) for value in (one.score, one.advantage)):
            raise CreditError(
                f"turn {where.turn_id}: expected a finite advantage, got {one.advantage}"
            )
    return Book(declared=declared, stored=stored, results=results)


def _compared(
    connection: Connection,
    mismatch: MismatchRejection,
    stored: Sequence[StoredTurn],
    turns: Sequence[Turn],
    as_of: datetime | None,
) -> list[Turn]:
    """Turns with their ratios and tokens; if `partial`, turns without a ratio count as equal on
    both sides.  Raises CreditError for a turn with a reward and without a ratio.
    """
    ratios = mismatch_rejection.read(connection, mismatch, as_of)
    found = []
    for where, turn in zip(stored, turns, strict=True):
        ratio = (
            ratios.ratio(where.turn_id, (where.trajectory_id, where.turn))
            if turn.reward is not None
            else None
        )
        tokens = turn.tokens if ratio is None else max(1, ratio.tokens)
        found.append(replace(turn, ratios=ratio or _EQUAL, tokens=tokens))
    mismatch_rejection.require(connection, ratios, as_of)
    return found


_EQUAL = TokenRatios(log_sum=0.0, tokens=0, log_least=0.0)


def group(one: StoredTurn) -> tuple[str, str, str]:
    """Name of a turn's group."""
    return one.run, one.problem_id, one.backend


def credits_of(members: Sequence[tuple[StoredTurn, Credit]], turn: int) -> TurnCredits:
    """Credit of a trajectory's turns up to the position `turn`."""
    shown = [pair for pair in members if pair[0].turn <= turn]
    results = [one for _, one in shown]
    return TurnCredits(
        group="/".join(group(shown[0][0])),
        rewards=tuple(one.turn.reward for one in results),
        scores=tuple(one.score for one in results),
        advantages=tuple(one.advantage for one in results),
        left_out=tuple(None if one.dropped is None else str(one.dropped) for one in results),
    )


def columns(found: TurnCredits | None) -> dict[str, Any]:
    """Values of COLUMNS; all null for a candidate that came without a run."""
    if found is None:
        return dict.fromkeys(COLUMNS.names)
    masks = [
        out is None and value is not None
        for out, value in zip(found.left_out, found.advantages, strict=True)
    ]
    return {
        "credit_group": found.group,
        "turn_reward": found.rewards[-1],
        "turn_score": found.scores[-1],
        "advantage": found.advantages[-1],
        "advantage_mask": masks[-1],
        "left_out": found.left_out[-1],
        "turn_rewards": list(found.rewards),
        "turn_scores": list(found.scores),
        "turn_advantages": list(found.advantages),
        "turn_masks": masks,
    }


def token_columns(
    row: dict[str, Any], by_turn: Mapping[str, tuple[StoredTurn, Credit]]
) -> dict[str, Any]:
    """Credit of a token-level row (app.domain.collection.sequences): per turn, and
    per token of `ids`.

    `turn_rewards` are those that the advantages were computed from.  `advantages` is 0 and
    `loss_mask` 0 outside the answers, and in answers that are left out.
    """
    pairs = [by_turn.get(turn_id or "") for turn_id in row["turn_ids"]]
    found = [None if pair is None else pair[1] for pair in pairs]
    kept = [one is not None and one.dropped is None and one.advantage is not None for one in found]
    advantages, loss_mask, begin = [0.0] * len(row["ids"]), [0] * len(row["ids"]), 0
    for one, stays, end in zip(found, kept, row["turn_ends"], strict=True):
        for at in range(begin, end + 1):
            if stays and row["mask"][at] and one is not None:
                advantages[at], loss_mask[at] = one.advantage or 0.0, 1
        begin = end + 1
    first = next((pair[0] for pair in pairs if pair is not None), None)
    return {
        "credit_group": None if first is None else "/".join(group(first)),
        "turn_rewards": [None if one is None else one.turn.reward for one in found],
        "turn_scores": [None if one is None else one.score for one in found],
        "turn_advantages": [None if one is None else one.advantage for one in found],
        "turn_masks": kept,
        "left_out": [
            None if one is None or one.dropped is None else str(one.dropped) for one in found
        ],
        "advantages": advantages,
        "loss_mask": loss_mask,
    }


def card(summary: dict[str, Any]) -> str:
    """Section of a dataset's card: method, baseline, and the turns outside their groups."""
    recipe = summary["recipe"]
    rejected = "stay in" if recipe["rejected_in_baseline"] else "leave"
    out = "\n".join(
        f"| {reason} | {count} | {REASONS[credit.Dropped(reason)]} |"
        for reason, count in summary["dropped"].items()
    )
    return f"""## Advantages

Columns {", ".join(f"`{name}`" for name in COLUMNS.names)}: method `{summary["method"]}`, \
{summary["about"]}. Reward `{summary["reward"]}`, discount between turns \
{recipe["options"]["gamma"]:g}, shaping {recipe["options"]["shaping"]}. Group: \
{summary["baseline"]}; prompts are a run, a problem and a backend; a row alone in its group gets: \
{summary["alone"]}. Turns rejected by sampling {rejected} the baseline. Computed from all \
{summary["turns"]} turns of {summary["groups"]} groups of the runs {", ".join(summary["runs"])}, \
whether they are rows here or not. Where `advantage_mask` is false, leave the turn out of the \
loss; a null advantage is not 0.

| left out | turns | because |
|---|--:|---|
{out or "| none | 0 | |"}"""


def _require_one_cell(stored: Sequence[StoredTurn]) -> None:
    cells: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
    for one in stored:
        if one.cell is not None:
            cells.setdefault(group(one), set()).add(one.cell)
    for (run, problem, _), found in cells.items():
        if len(found) > 1:
            kinds = "; ".join(", ".join(cell) for cell in sorted(found))
            raise CreditError(
                f"run {run}, problem {problem}: expected one device class, protocol and baseline,"
                f" got {kinds}"
            )


def turn_of(one: StoredTurn, reward_name: str) -> Turn:
    """Input of a method: a stored turn with its reward; None where it has none
    through no fault of the model.
    """
    result = one.rewarded
    measures = None if result is None else reward.measures(result)
    return Turn(
        group=group(one),
        trajectory=one.line,
        index=one.step + 1,
        reward=None if result is None or one.unfinished else reward.score(reward_name, result),
        tokens=max(1, one.response_bytes // BYTES_A_TOKEN),
        correct=measures is not None and measures.credited,
        coverage=None if measures is None else measures.coverage_time,
        speedup=None if measures is None else measures.speedup,
    )
