"""STORE: sources that are a hack in one of several evaluations: no other evaluation
of such a source is clean.

A source is evaluated several times on several devices, or with several options.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.verdict import Label
from app.store.tables import jobs

Solution = tuple[UUID, UUID]
"""Problem and candidate."""

_FOUND = """
    SELECT DISTINCT asked.problem_id, asked.candidate_id
    FROM (
        SELECT evaluation_id FROM public.verdicts WHERE label = :hack
        UNION SELECT evaluation_id FROM public.reviews WHERE verdict = :hack
    ) AS accused
    JOIN evaluations AS measured USING (evaluation_id)
    JOIN jobs AS asked ON asked.job_id = measured.job_id
    WHERE measured.created_at < :as_of AND EXISTS (
        SELECT FROM jobs AS again
        WHERE again.candidate_id = asked.candidate_id AND again.problem_id = asked.problem_id
          AND again.job_id <> asked.job_id
    ) AND :hack = coalesce(measured.human_verdict, (
        SELECT CASE WHEN judged.policy = :policy THEN judged.label END FROM public.verdicts
          AS judged
        WHERE judged.evaluation_id = measured.evaluation_id AND judged.created_at < :as_of
        ORDER BY judged.created_at DESC, judged.verdict_id DESC LIMIT 1))"""


def found(
    connection: sa.Connection, policy: str, as_of: datetime, *, prefix: str = ""
) -> list[Solution]:
    """Solutions with several jobs, of which one evaluation counts as a hack, by a
    person or under the policy.

    `prefix`: common table expressions that replace tables, see
    `app.store.dataset.export_attempts.as_it_was`.
    """
    query = sa.text(prefix + _FOUND)
    values = {"hack": str(Label.HACK), "policy": policy, "as_of": as_of}
    return [
        (problem_id, candidate_id) for problem_id, candidate_id in connection.execute(query, values)
    ]


def is_none_of(solutions: Sequence[Solution]) -> sa.ColumnElement[bool]:
    """Condition: the job is of another solution."""
    problem_ids, candidate_ids = (
        sa.literal(list(each), ARRAY(sa.Uuid)) for each in zip(*solutions, strict=True)
    )
    columns = (sa.column("problem_id", sa.Uuid), sa.column("candidate_id", sa.Uuid))
    known = (
        sa.func.unnest(problem_ids, candidate_ids)
        .table_valued(*columns, name="hacked")
        .render_derived()
    )
    listed = sa.select(known.c.problem_id, known.c.candidate_id)
    return sa.tuple_(jobs.c.problem_id, jobs.c.candidate_id).not_in(listed)
