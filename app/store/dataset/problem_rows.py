"""STORE: problems as rows of an export: prompts to be tried, whether or not an
answer to them is stored.

Each problem stands once for every backend that is asked for, with the columns of
`export_attempts.SCHEMA` and without an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import filter_fields
from app.domain import filter_language as filters
from app.domain.dataset.selection import Spec
from app.domain.verdict import Label
from app.store.dataset import answers_without_code, export_attempts, label_changes, quoted_answers
from app.store.dataset.export_attempts import PASSED
from app.store.dataset.export_conditions import Condition, usual_device
from app.store.dataset.export_sources import FAMILY, SAME_FAMILY_RULE
from app.store.evaluation import evaluation_rows
from app.store.filter import filter_sql
from app.store.tables import (
    attempts,
    candidates,
    evaluations,
    jobs,
    problem_features,
    problems,
    runs,
    trajectories,
)

STATUS = "untried"
"""In place of an evaluation's status."""
BATCH = 1_000
"""Problems read at once."""
_JOINED = problems.outerjoin(problem_features, SAME_FAMILY_RULE)
_ANSWERED = (
    attempts.outerjoin(evaluations, evaluations.c.evaluation_id == attempts.c.evaluation_id)
    .outerjoin(jobs, jobs.c.job_id == evaluations.c.job_id)
    .outerjoin(candidates, candidates.c.candidate_id == jobs.c.candidate_id)
    .outerjoin(trajectories, trajectories.c.trajectory_id == attempts.c.trajectory_id)
)
_FIELDS = frozenset(
    name
    for name, column in evaluation_rows.COLUMNS.items()
    if getattr(column, "table", None) is problems
)


def conditions(spec: Spec) -> list[Condition]:
    """The stages that the database decides.  ValueError for a filter on something
    that problems do not have.
    """
    expression = filters.parse(spec.where)
    if others := sorted(filters.names(expression) - _FIELDS):
        expected = ", ".join(sorted(_FIELDS & filter_fields.FIELDS.keys()))
        raise ValueError(
            f"where: expected fields of problems ({expected}), got {', '.join(others)}"
        )
    rule = filters.unparse(expression) or "everything"
    found = [Condition(name="where", keeps=filter_sql.compile(expression), rule=rule)]
    if spec.families:
        kept = problem_features.c.family.in_(spec.families)
        found.append(
            Condition(name="families", keeps=kept, rule=f"one of {len(spec.families)} families")
        )
    return found


def batches(
    connection: sa.Connection,
    stages: Sequence[Condition],
    backends: Sequence[str],
    *,
    as_of: datetime,
) -> Iterator[pa.RecordBatch]:
    """Problems older than `as_of`, ordered by family and problem, once for each backend."""
    dropped = [
        (sa.not_(sa.func.coalesce(one.keeps, sa.false())), place)
        for place, one in enumerate(stages)
    ]
    family = FAMILY.label("family")
    query = (
        sa.select(problems.c.problem_id, family, sa.case(*dropped, else_=PASSED).label("stage"))
        .select_from(_JOINED)
        .where(problems.c.created_at < as_of)
        .order_by(family.collate("C"), problems.c.problem_id)
    )
    waiting: list[dict[str, Any]] = []
    for problem_id, of_family, stage in connection.execute(
        query, execution_options={"yield_per": BATCH}
    ):
        same = {"problem_id": str(problem_id), "family": of_family, "stage": stage}
        waiting += [_ABSENT | same | {"backend": backend} for backend in sorted(backends)]
        if len(waiting) >= BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema=export_attempts.SCHEMA)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=export_attempts.SCHEMA)


Rates = dict[tuple[str, str], tuple[int, int]]
"""(Problem, backend) → (right and clean, all) first answers."""


def rates(connection: sa.Connection, run: str, as_of: datetime) -> Rates:
    """First answers of a run on one device class: valid evaluations, and answers without code.

    The class is the GPU class with the most of them, `cpu` only if no GPU has any.  Labels are
    those of the moment.  ValueError if no run has that name.
    """
    run_id = connection.execute(
        sa.select(runs.c.run_id).where(runs.c.name == run)
    ).scalar_one_or_none()
    if run_id is None:
        raise ValueError(f"rate_run: expected the name of a stored run, got {run!r}")
    first = (
        attempts.c.run_id == run_id,
        sa.func.coalesce(attempts.c.turn_index, 0) == 0,
        quoted_answers.asks_alone(attempts.c.turn_id),
        attempts.c.valid,
    )
    older = (*first, attempts.c.created_at < as_of)
    measured = (
        sa.select(evaluations.c.device_class, sa.func.count()).select_from(_ANSWERED).where(*older)
    )
    counts = {
        name: count
        for name, count in connection.execute(measured.group_by(evaluations.c.device_class))
        if name
    }
    device = usual_device(counts)
    silent_here = sa.and_(
        evaluations.c.evaluation_id.is_(None), answers_without_code.measured_on(device, as_of)
    )
    here = sa.or_(evaluations.c.device_class == device, silent_here)
    was = _labels_of(label_changes.labels_at(connection, as_of))
    label = sa.case((was.c.evaluation_id.is_not(None), was.c.label), else_=attempts.c.label)
    good = sa.func.count().filter(attempts.c.correct, label == Label.CLEAN)
    backend = sa.func.coalesce(candidates.c.backend, trajectories.c.backend)
    query = (
        sa.select(attempts.c.problem_id, backend, good, sa.func.count())
        .select_from(_ANSWERED.outerjoin(was, was.c.evaluation_id == attempts.c.evaluation_id))
        .where(*older, here)
    )
    found = connection.execute(query.group_by(attempts.c.problem_id, backend))
    return {
        (str(problem_id), of_backend): (right, total)
        for problem_id, of_backend, right, total in found
    }


def _labels_of(known: Mapping[UUID, str | None]) -> sa.TableValuedAlias:
    """A table of evaluations and labels."""
    columns = (sa.column("evaluation_id", sa.Uuid), sa.column("label", sa.Text))
    arrays = (
        sa.literal(list(known), ARRAY(sa.Uuid)),
        sa.literal(list(known.values()), ARRAY(sa.Text)),
    )
    return sa.func.unnest(*arrays).table_valued(*columns, name="was").render_derived()


def prompts(connection: sa.Connection, problem_ids: Sequence[str]) -> dict[str, str]:
    """Problem → the messages that its source asks with, JSON; problems without are left out."""
    query = sa.select(problems.c.problem_id, problems.c.prompt_json).where(
        problems.c.problem_id.in_(problem_ids), problems.c.prompt_json.is_not(None)
    )
    return {str(problem_id): prompt_json for problem_id, prompt_json in connection.execute(query)}


_ABSENT: dict[str, Any] = dict.fromkeys(export_attempts.SCHEMA.names) | {
    "status": STATUS,
    "compiled": False,
    "correct": False,
    "reviewed": False,
    "teachable": True,
    "believed": True,
}
