"""STORE: narrow columns of the tables that export decisions read, and values
computed from the wide ones.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.domain.dataset.problem_family import VERSION
from app.store.tables import candidates, problem_features, problems, turns


def narrow(table: sa.Table, *names: str, **computed: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Some columns of a table and values computed from its wide ones."""
    columns = [table.c[name] for name in names]
    return sa.select(*columns, *(value.label(name) for name, value in computed.items()))


def fenced(query: sa.Select[Any], *, whole: bool) -> sa.Select[Any]:
    """Where the whole table is read, `OFFSET 0` keeps PostgreSQL from computing its
    values later: source code and JSON that travel through joins and sorts take half
    the time of the whole query.
    """
    return query.offset(0) if whole else query


narrow_candidate_rows = narrow(
    candidates,
    "candidate_id",
    "backend",
    "source_sha256",
    source_bytes=sa.func.octet_length(candidates.c.source),
)

candidate_rows = fenced(narrow_candidate_rows, whole=True).subquery("candidates")

problem_rows = fenced(
    narrow(
        problems,
        *(
            column.name
            for column in problems.c
            if column.name not in ("reference", "prompt_json", "claims")
        ),
        reference_bytes=sa.func.octet_length(problems.c.reference),
    ),
    whole=True,
).subquery("problems")

_own_bytes = sa.func.octet_length(turns.c.messages_json) + sa.func.octet_length(turns.c.response)

_asked, _answered = (
    sa.func.md5(column, type_=sa.Text) for column in (turns.c.messages_json, turns.c.response)
)

_before = sa.func.string_agg(_asked + _answered, "", type_=sa.Text).over(
    partition_by=turns.c.trajectory_id, order_by=turns.c.turn_index, rows=(None, -1)
)


def with_history(
    opening: sa.ColumnElement[str | None], only: sa.ColumnElement[bool] | None = None
) -> sa.Subquery:
    """Turns with the bytes of their own messages (`asked_bytes`) and of the conversation up to each
    (`said_bytes`), and `opening`: a hash of the texts before its answer, or NULL.
    """
    query = narrow(
        turns,
        *("turn_id", "trajectory_id", "turn_index", "job_id", "created_at"),
        unprompted=sa.and_(turns.c.turn_index == 0, turns.c.messages_json == "[]"),
        opening=opening,
        asked_bytes=sa.func.octet_length(turns.c.messages_json),
        said_bytes=sa.func.sum(_own_bytes).over(
            partition_by=turns.c.trajectory_id, order_by=turns.c.turn_index, rows=(None, 0)
        ),
    )
    return fenced(query if only is None else query.where(only), whole=True).subquery("turns")


UNASKED: sa.ColumnElement[str | None] = sa.cast(sa.null(), sa.Text)

OPENING: sa.ColumnElement[str | None] = sa.func.md5(
    sa.func.coalesce(_before, "", type_=sa.Text) + _asked
)

turn_rows = with_history(UNASKED)
"""Turns with the number of bytes of the conversation up to each."""

prompted_turn_rows = with_history(OPENING)
"""Turns with a hash of everything before their answer (`opening`): reads every text."""

TEMPLATE_BYTES = 600
"""Size of Assay's own prompt without the reference."""

BYTES = sa.case(
    (turns.c.turn_id.is_not(None), turn_rows.c.said_bytes),
    else_=candidate_rows.c.source_bytes + problem_rows.c.reference_bytes + TEMPLATE_BYTES,
)
"""Size of the whole conversation."""

PROMPT_BYTES = sa.case(
    (turns.c.turn_id.is_not(None), turn_rows.c.asked_bytes),
    else_=problem_rows.c.reference_bytes + TEMPLATE_BYTES,
)
"""Size of the messages before a first answer."""

FAMILY = sa.func.coalesce(problem_features.c.family, problems.c.reference_sha256)

SAME_FAMILY_RULE = sa.and_(
    problem_features.c.problem_id == problems.c.problem_id, problem_features.c.version == VERSION
)
"""Condition that ties a problem to its facts, if they are of this version's rule."""
