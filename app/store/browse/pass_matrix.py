"""STORE: outcomes of the tests of a problem, evaluation by evaluation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.evaluation import Status
from app.domain.pass_matrix import OWN, Tested
from app.domain.verdict import Label

MOST = 500
"""Latest evaluations that are read."""


def of_problem(connection: sa.Connection, problem_id: UUID, *, limit: int = MOST) -> list[Tested]:
    """Latest judged evaluations with verified calls, newest first, without hacks: an answer that
    was not computed says nothing about a test.
    """
    values = {"problem_id": problem_id, "limit": limit, "hack": Label.HACK}
    return [_tested(row) for row in connection.execute(_QUERY, values)]


def _tested(row: Any) -> Tested:
    shapes: dict[str, str] = {}
    trials = []
    for case, kind, ok, outputs in row.trials or ():
        trials.append((kind or OWN, bool(ok)))
        told = ", ".join(f"{dtype}[{'×'.join(map(str, shape))}]" for dtype, shape in outputs or ())
        shapes.setdefault(case or kind or OWN, told)
    return Tested(
        evaluation_id=str(row.evaluation_id),
        candidate_id=str(row.candidate_id),
        status=Status(row.status),
        failed_calls=row.failed_calls or 0,
        trials=tuple(trials),
        excused=frozenset(text.partition(":")[0] for text in row.excused or ()),
        cases=tuple((name, status == Status.PASSED) for name, status in row.cases or ()),
        shapes=shapes,
    )


_QUERY = sa.text("""
WITH latest AS (
  SELECT evaluation_id, max(created_at) AS created_at FROM attempts
  WHERE problem_id = :problem_id AND evaluation_id IS NOT NULL AND label IS DISTINCT FROM :hack
  GROUP BY evaluation_id ORDER BY max(created_at) DESC LIMIT :limit
)
SELECT e.evaluation_id, j.candidate_id, e.status,
  (e.measurement->'correctness'->>'failed_calls')::int AS failed_calls,
  e.measurement->'correctness'->'excused' AS excused,
  (SELECT jsonb_agg(jsonb_build_array(t->'case', t->'variant', t->'ok',
     (SELECT jsonb_agg(jsonb_build_array(o->'dtype', o->'shape'))
       FROM jsonb_array_elements(t->'outputs') o)))
   FROM jsonb_array_elements(e.measurement->'correctness'->'trials') t) AS trials,
  (SELECT jsonb_agg(jsonb_build_array(c->'name', c->'status'))
   FROM jsonb_array_elements(e.measurement->'cases') c) AS cases
FROM latest JOIN evaluations e USING (evaluation_id) JOIN jobs j USING (job_id)
WHERE e.valid AND jsonb_typeof(e.measurement->'correctness') = 'object'
ORDER BY latest.created_at DESC, e.evaluation_id DESC
""")
