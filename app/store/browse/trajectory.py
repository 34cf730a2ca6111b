"""STORE: the page of a trajectory: turns, one turn with its neighbours, the conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import reward
from app.domain.evaluation import Evaluation
from app.domain.trajectory import Message
from app.domain.verdict import is_credited
from app.store.browse.evaluation import NOTHING, Believed, believed
from app.store.browse.trajectories import NAMED, SOURCE, Named
from app.store.evaluation import evaluation_json, evaluation_rows
from app.store.postgres import row_columns
from app.store.tables import (
    candidates,
    evaluations,
    jobs,
    nodes,
    runs,
    trajectories,
    turns,
    verdicts,
)
from app.store.trajectory import attempt_lines


@dataclass(frozen=True, kw_only=True)
class TurnLine:
    """A turn in the rail: its outcome, without its texts."""

    turn_index: int
    response_bytes: int
    job_id: UUID | None
    state: str | None
    evaluation_id: UUID | None
    status: str | None
    verdict: str | None
    speedup: float | None
    """Speedup as measured, independent of the verdict."""
    speedup_ci_low: float | None
    speedup_ci_high: float | None
    candidate_us: float | None
    device_name: str | None
    baseline: str | None
    protocol: str | None
    valid: bool | None
    compiled: bool | None
    correct: bool | None
    coverage_time: float | None
    coverage_count: float | None

    @property
    def result(self) -> Mapping[str, object] | None:
        """Keys of a result that rewards read; None until the turn is judged."""
        if self.job_id is None:
            return reward.WITHOUT_CODE
        return (
            None
            if self.verdict is None
            else {name: getattr(self, name) for name in reward.WITHOUT_CODE}
        )

    @property
    def credited(self) -> float | None:
        """The speedup, unless it is a hack's."""
        return self.speedup if is_credited(correct=True, label=self.verdict) else None


@dataclass(frozen=True, kw_only=True)
class TurnPage:
    """One turn, as submitted and as measured."""

    turn_index: int
    messages: tuple[Message, ...]
    response: bytes
    candidate: bytes | None
    job_id: UUID | None
    evaluation_id: UUID | None
    baseline: str | None
    evaluation: Evaluation | None
    """None, as the two before, until its job has finished."""
    believed: Believed


@dataclass(frozen=True, kw_only=True)
class TurnText:
    """Everything that was said in one turn."""

    turn_index: int
    messages: tuple[Message, ...]
    response: bytes
    """At most TEXT_BYTES of it."""
    response_bytes: int
    """Size of the whole response."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A trajectory that holds some turns of a collection's sample."""

    trajectory_id: UUID
    first: int
    """Position in the sample of its first turn, from 0."""
    last: int


@dataclass(frozen=True, kw_only=True)
class TrajectoryPage(Named):
    """One trajectory with its rail; `turn` reads the texts of one turn."""

    step: int | None
    claims: dict[str, Any] | None
    """Further fields of its source, unchecked."""
    turns: tuple[TurnLine, ...]
    windows: tuple[Window, ...]
    """All trajectories of its sample in the order of their turns, its own among them; empty where
    it is the only one.
    """
    newer: UUID | None
    """The trajectory stored after this one, of the same run if it has one."""
    older: UUID | None


TEXT_BYTES = 256 << 10
"""Bytes of one response, and of the messages before it, in a conversation."""


def read(connection: sa.Connection, trajectory_id: UUID) -> TrajectoryPage | None:
    """The page of one trajectory; None where there is none of that id."""
    query = (
        sa.select(*NAMED, runs.c.step, trajectories.c.claims)
        .select_from(SOURCE)
        .where(trajectories.c.trajectory_id == trajectory_id)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    head = dict(row)
    newer, older = _neighbours(connection, trajectory_id, head["run_id"])
    return TrajectoryPage(
        **head,
        turns=_turns(connection, trajectory_id),
        windows=_windows(connection, trajectory_id),
        newer=newer,
        older=older,
    )


def turn(connection: sa.Connection, trajectory_id: UUID, turn_index: int) -> TurnPage | None:
    """One turn with its texts and its measurement; None where there is none of that number."""
    query = (
        sa.select(
            turns.c.turn_index,
            turns.c.messages_json,
            turns.c.response,
            turns.c.job_id,
            candidates.c.source.label("candidate"),
            evaluations.c.evaluation_id,
            evaluations.c.baseline,
            evaluations.c.measurement,
        )
        .select_from(
            turns.outerjoin(jobs, jobs.c.job_id == turns.c.job_id)
            .outerjoin(candidates, candidates.c.candidate_id == jobs.c.candidate_id)
            .outerjoin(evaluations, evaluations.c.job_id == jobs.c.job_id)
        )
        .where(turns.c.trajectory_id == trajectory_id, turns.c.turn_index == turn_index)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    found = dict(row)
    messages, measurement = json.loads(found.pop("messages_json")), found.pop("measurement")
    measured = found["evaluation_id"]
    return TurnPage(
        **found,
        messages=tuple(Message(role=item["role"], content=item["content"]) for item in messages),
        evaluation=None if measurement is None else evaluation_json.decode(measurement),
        believed=NOTHING if measured is None else believed(connection, measured),
    )


def conversation(connection: sa.Connection, trajectory_id: UUID) -> list[TurnText]:
    """All turns with their texts.  Messages longer than TEXT_BYTES are replaced by a note."""
    size = sa.func.octet_length(turns.c.messages_json)
    query = (
        sa.select(
            turns.c.turn_index,
            sa.case((size <= TEXT_BYTES, turns.c.messages_json)).label("messages_json"),
            sa.func.substring(turns.c.response, 1, TEXT_BYTES).label("response"),
            sa.func.octet_length(turns.c.response).label("response_bytes"),
        )
        .where(turns.c.trajectory_id == trajectory_id)
        .order_by(turns.c.turn_index)
    )
    return [_turn_text(row) for row in connection.execute(query).mappings()]


def _turn_text(row: sa.RowMapping) -> TurnText:
    messages = [
        {
            "role": "system",
            "content": f"(messages of more than {TEXT_BYTES >> 10} KiB: see the turn)",
        }
    ]
    if row["messages_json"] is not None:
        messages = json.loads(row["messages_json"])
    return TurnText(
        turn_index=row["turn_index"],
        messages=tuple(Message(role=each["role"], content=each["content"]) for each in messages),
        response=bytes(row["response"]),
        response_bytes=row["response_bytes"],
    )


def _windows(connection: sa.Connection, trajectory_id: UUID) -> tuple[Window, ...]:
    ids = attempt_lines.with_lines(connection, [trajectory_id])
    if len(ids) == 1:
        return ()
    first = sa.func.min(nodes.c.turn)
    query = (
        sa.select(
            turns.c.trajectory_id, first.label("first"), sa.func.max(nodes.c.turn).label("last")
        )
        .join(nodes, nodes.c.turn_id == turns.c.turn_id)
        .where(turns.c.trajectory_id.in_(ids))
        .group_by(turns.c.trajectory_id)
        .order_by(first, turns.c.trajectory_id)
    )
    return tuple(Window(**row) for row in connection.execute(query).mappings())


def _neighbours(
    connection: sa.Connection, trajectory_id: UUID, run_id: UUID | None
) -> tuple[UUID | None, UUID | None]:
    key = trajectories.c.trajectory_id
    near = sa.select(key).limit(1)
    if run_id is not None:
        near = near.where(trajectories.c.run_id == run_id)
    newer = connection.scalar(near.where(key > trajectory_id).order_by(key))
    return newer, connection.scalar(near.where(key < trajectory_id).order_by(key.desc()))


_LINES = sa.select(
    *row_columns.of(
        TurnLine,
        turns,
        jobs,
        evaluations,
        response_bytes=sa.func.octet_length(turns.c.response),
        verdict=evaluation_rows.LABEL,
    )
).select_from(
    turns.outerjoin(jobs, jobs.c.job_id == turns.c.job_id)
    .outerjoin(evaluations, evaluations.c.job_id == jobs.c.job_id)
    .outerjoin(verdicts, evaluation_rows.CURRENT)
)


def _turns(connection: sa.Connection, trajectory_id: UUID) -> tuple[TurnLine, ...]:
    query = _LINES.where(turns.c.trajectory_id == trajectory_id).order_by(turns.c.turn_index)
    return tuple(TurnLine(**row) for row in connection.execute(query).mappings())
