"""STORE: input of export decisions: attempts in narrow columns, by COPY, in one
total order (their texts: `export_texts`).

The stages that a database can decide are decided there: every attempt comes with the number of
the first stage that drops it (`stage`), so that one pass gives the funnel, the reason for every
row, and the input of choosing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar, cast

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.sql import visitors

from app.domain.dataset.example_facts import EvaluationFacts
from app.domain.evaluation_row import EvaluationRow
from app.domain.review import DECISIVE
from app.store.dataset import answers_without_code
from app.store.dataset.export_conditions import EXTRACTION, JUDGED, TOKENS, Condition
from app.store.dataset.export_matching import Matching
from app.store.dataset.export_sources import (
    FAMILY,
    OPENING,
    SAME_FAMILY_RULE,
    UNASKED,
    candidate_rows,
    fenced,
    narrow,
    narrow_candidate_rows,
    problem_rows,
    prompted_turn_rows,
    turn_rows,
    with_history,
)
from app.store.evaluation import evaluation_rows
from app.store.postgres import arrow
from app.store.tables import (
    candidate_features,
    candidates,
    evaluations,
    nodes,
    problem_features,
    problems,
    trajectories,
    turn_features,
    turns,
    verdicts,
)
from app.store.trajectory import attempt_lines

_Element = TypeVar("_Element", bound=visitors.ExternallyTraversible)

PASSED = 99
"""`stage` of an attempt that no stage of the database drops."""
_SETTINGS = {"work_mem": "64MB", "jit": "off", "parallel_setup_cost": 0, "parallel_tuple_cost": 0}
"""Settings of the one large query: compiling it takes longer than it saves, and all
else waits for its first row.
"""


_BESIDE: tuple[tuple[sa.Table, sa.ColumnElement[bool]], ...] = (
    (problem_features, SAME_FAMILY_RULE),
    (candidate_features, candidate_features.c.candidate_id == candidates.c.candidate_id),
    (turn_features, turn_features.c.turn_id == turns.c.turn_id),
)
"""Tables of facts about texts, and the condition that ties each to its text."""

_FROM_RECORDS = frozenset(
    {"problem", "source_set", "level", "entry_point", "reference_sha256", "run", "model"}
)
"""Fields of `EvaluationFacts` that rendering takes from the record of the problem or run, because
attempts are many and these records few.
"""
_WORKING = frozenset({"candidate_id", "run_id", "compiled"})
"""Fields of `EvaluationRow` beside those of `EvaluationFacts`: keys of further records, and inputs
of decisions.
"""
_NARROW: dict[str, tuple[sa.ColumnElement[Any], pa.DataType]] = {
    field.name: (evaluation_rows.COLUMNS[field.name], arrow.type_of(EvaluationRow, field.name))
    for field in fields(EvaluationRow)
    if field.name in (_WORKING | set(EvaluationFacts._fields)) - _FROM_RECORDS - {"problem_id"}
}
"""Columns of an attempt: every field that `EvaluationRow` and `EvaluationFacts` have in common and
no other record has.
"""
_NARROW["correct"] = (evaluations.c.correct, pa.bool_())
"""Correctness as measured: `sampling` and rewards look at the label beside it."""
_EXTRA: dict[str, tuple[sa.ColumnElement[Any], pa.DataType]] = {
    "problem_id": (problems.c.problem_id, pa.string()),
    "sample": (trajectories.c.label, pa.string()),
    "family": (FAMILY, pa.string()),
    "source_bytes": (candidate_rows.c.source_bytes, pa.int32()),
    "normalised": (candidate_features.c.normalised, pa.string()),
    "renamed": (candidate_features.c.renamed, pa.string()),
}

SCHEMA = pa.schema(
    [(name, kind) for name, (_, kind) in (_NARROW | _EXTRA).items()]
    + [
        ("stage", pa.int32()),
        ("teachable", pa.bool_()),
        ("believed", pa.bool_()),
        ("signature", pa.string()),
        ("prompt", pa.string()),
        ("last_turn", pa.int32()),
        ("line", pa.string()),
        ("step", pa.int32()),
        ("last_step", pa.int32()),
    ]
)
"""Columns of `attempts`."""


def attempts(
    connection: sa.Connection,
    stages: Sequence[Condition],
    *,
    as_of: datetime,
    signatures: bool,
    prompts: bool,
    ends: bool = False,
    replay: bool = False,
    only: Matching | None = None,
) -> Iterator[pa.RecordBatch]:
    """Every attempt older than `as_of`, answers without code too, ordered by family,
    problem, trajectory and turn.

    `signatures` asks for those of passing attempts, `prompts` for a hash of each conversation's
    opening, `ends` for the last turn of each trajectory, and for places in samples of collections
    (app.store.trajectory.attempt_lines): they cost.
    `replay` reads verdicts and reviews as they were at `as_of`, not as they are.  `only` leaves out
    attempts that no decision depends on.
    """
    said = prompted_turn_rows if prompts else turn_rows
    if only is not None:
        said = with_history(OPENING if prompts else UNASKED, only.of_trajectories)
    judged = _judged(stages, as_of, said=said, only=only)
    hexed = sa.func.encode(judged.c.signature, "hex")
    shown: dict[str, sa.ColumnElement[Any]] = {
        "signature": sa.case((judged.c.stage == PASSED, hexed)) if signatures else sa.null(),
        "prompt": judged.c.prompt if prompts else sa.null(),
        **(_ends(judged, as_of) if ends else dict.fromkeys(_ENDS, sa.null())),
    }
    source = attempt_lines.joined(judged, judged.c.run_id, judged.c.turn_id) if ends else judged
    columns = (shown[name] if name in shown else judged.c[name] for name in SCHEMA.names)
    query = sa.select(*columns).select_from(source)
    query = query.order_by(
        judged.c.family.collate("C"),
        judged.c.problem_id,
        judged.c.trajectory_id.nulls_last(),
        judged.c.turn,
        judged.c.created_at,
        judged.c.evaluation_id,
        judged.c.turn_id.nulls_last(),
    )
    for setting, value in _SETTINGS.items():
        connection.execute(sa.text(f"SET LOCAL {setting} = '{value}'"))
    yield from arrow.batches(connection, query, SCHEMA, prefix=as_it_was(as_of) if replay else "")


_ENDS = ("last_turn", "line", "step", "last_step")


def _ends(judged: sa.Subquery, as_of: datetime) -> dict[str, sa.ColumnElement[Any]]:
    """Columns _ENDS: the last turn of an attempt's trajectory, evaluated or not, and its sample
    with its place there and the last one.
    """
    own, others = turns.alias("own_turns"), nodes.alias("others")
    known = own.c.created_at < as_of
    of_sample = (
        others.c.rollout_id == nodes.c.rollout_id,
        others.c.sample == nodes.c.sample,
        others.c.turn_id == own.c.turn_id,
    )
    last_turn = sa.select(sa.func.max(own.c.turn_index)).where(
        known, own.c.trajectory_id == judged.c.trajectory_id
    )
    last_step = sa.select(sa.func.max(others.c.turn)).where(known, *of_sample)
    columns = (
        last_turn.scalar_subquery(),
        attempt_lines.SAMPLE,
        nodes.c.turn,
        sa.case((nodes.c.rollout_id.is_not(None), last_step.scalar_subquery())),
    )
    return dict(zip(_ENDS, columns, strict=True))


def _kept_codeless(stages: Sequence[Condition], said: sa.Subquery) -> list[sa.ColumnElement[bool]]:
    """By stage, the condition that an answer without code is kept."""
    return [
        sa.true()
        if one.keeps_codeless is None
        else _narrowed(one.keeps_codeless, {turn_rows: said})
        for one in stages
    ]


def _judged(
    stages: Sequence[Condition], as_of: datetime, *, said: sa.Subquery, only: Matching | None = None
) -> sa.Subquery:
    """Every attempt older than `as_of` with the stage that drops it, narrow enough to be sorted."""
    fresh = next(one.keeps for one in stages if one.name == JUDGED)
    current = narrow(verdicts, "verdict_id", "evaluation_id", "label", "is_current", fresh=fresh)
    whole = only is None
    verdict = fenced(current.where(verdicts.c.is_current), whole=whole).subquery("verdicts")
    sources = candidate_rows if whole else narrow_candidate_rows.subquery("candidates")
    standing_in = {
        candidates: sources,
        candidate_rows: sources,
        problems: problem_rows,
        turns: said,
        turn_rows: said,
        verdicts: verdict,
    }
    keeps = [
        verdict.c.fresh if one.name == JUDGED else _narrowed(one.keeps, standing_in)
        for one in stages
    ]
    dropped = (
        (sa.not_(sa.func.coalesce(kept, sa.false())), place) for place, kept in enumerate(keeps)
    )
    teaching = [
        kept for one, kept in zip(stages, keeps, strict=True) if one.name in (EXTRACTION, TOKENS)
    ]
    columns = {
        name: _narrowed(column, standing_in) for name, (column, _) in (_NARROW | _EXTRA).items()
    }
    unprompted = sa.or_(said.c.turn_id.is_(None), said.c.unprompted)
    prompt = sa.case((unprompted, "template " + sources.c.backend), else_=said.c.opening)
    believed = sa.and_(evaluations.c.valid, verdict.c.fresh)
    query = sa.select(
        *(column.label(name) for name, column in columns.items()),
        evaluations.c.created_at.label("created_at"),
        candidate_features.c.signature.label("signature"),
        prompt.label("prompt"),
        sa.case(*dropped, else_=PASSED).label("stage"),
        sa.func.coalesce(sa.and_(sa.true(), *teaching), sa.false()).label("teachable"),
        sa.func.coalesce(believed, sa.false()).label("believed"),
    )
    joined: sa.FromClause = evaluation_rows.JOINED
    for table, same in _BESIDE:
        joined = joined.outerjoin(table, same)
    chosen = query.select_from(_narrowed(joined, standing_in)).where(
        evaluations.c.created_at < as_of
    )
    if only is not None:
        chosen = chosen.where(only.evaluated)
    codeless = answers_without_code.attempts(
        dict(chosen.selected_columns.items()),
        _kept_codeless(stages, said),
        said,
        FAMILY,
        _BESIDE[0][1],
        passed=PASSED,
        as_of=as_of,
    )
    return sa.union_all(chosen, codeless).subquery("judged")


def _narrowed(expression: _Element, standing_in: Mapping[Any, sa.Subquery]) -> _Element:
    """The expression with narrow tables in place of whole ones."""

    def replaced(element: Any, **_: Any) -> Any:
        if isinstance(element, sa.Table):
            return standing_in.get(element)
        if isinstance(element, sa.Subquery) and element in standing_in:
            return standing_in[element]
        if isinstance(element, sa.ColumnClause) and element.table in standing_in:
            return standing_in[element.table].c[element.key]
        return (
            element if isinstance(element, sa.Subquery) else None
        )  # made by this module: its inside stays as it is

    return cast("_Element", visitors.replacement_traverse(expression, {}, replaced))


def count(connection: sa.Connection, as_of: datetime) -> int:
    """Attempts older than `as_of`: for progress."""
    query = sa.select(sa.func.count()).select_from(
        evaluations.outerjoin(turns, turns.c.job_id == evaluations.c.job_id)
    )
    codeless = sa.select(sa.func.count()).where(
        turns.c.job_id.is_(None), turns.c.created_at < as_of
    )
    evaluated = connection.execute(query.where(evaluations.c.created_at < as_of)).scalar_one()
    return int(evaluated + connection.execute(codeless).scalar_one())


def as_it_was(as_of: datetime) -> str:
    """Common table expressions that replace the tables of the same names (PostgreSQL
    resolves them first).
    """
    moment = psycopg.sql.Literal(as_of).as_string(None)
    decisive = ", ".join(f"'{opinion}'" for opinion in DECISIVE)
    columns = ", ".join(column.name for column in evaluations.c if column.name != "human_verdict")
    return f"""WITH verdicts AS (
        SELECT DISTINCT ON (evaluation_id) verdict_id, evaluation_id, label, policy, detectors, true
          AS is_current
        FROM public.verdicts WHERE created_at < {moment}
        ORDER BY evaluation_id, created_at DESC, verdict_id DESC
    ), evaluations AS (
        SELECT {columns}, (
            SELECT said.verdict FROM public.reviews AS said
            WHERE said.evaluation_id = measured.evaluation_id AND said.created_at < {moment}
              AND said.label IN ({decisive}) AND NOT EXISTS (
                SELECT 1 FROM public.reviews AS taken
                WHERE taken.withdraws = said.review_id AND taken.created_at < {moment})
            ORDER BY said.created_at DESC, said.review_id DESC LIMIT 1) AS human_verdict
        FROM public.evaluations AS measured
    ) """  # noqa: S608 (no text of a caller: a moment, and names of our own)
