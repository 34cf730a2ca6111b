"""STORE: problems, runs and preferences that rows of a dataset refer to."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from app.store.dataset.export_sources import FAMILY, SAME_FAMILY_RULE
from app.store.tables import preferences, problem_features, problems, runs


class Problem(NamedTuple):
    """Columns about a row's problem."""

    problem: str
    source_set: str
    level: int | None
    entry_point: str
    reference_sha256: str
    family: str
    licence: str | None


class Run(NamedTuple):
    """Columns about the run of a row's trajectory."""

    run: str
    model: str | None
    licence: str | None
    """Licence of the model's outputs, if the run's settings have one."""


def problem_order(connection: sa.Connection) -> list[UUID]:
    """Every problem, in the order in which selections read them."""
    known = problems.outerjoin(problem_features, SAME_FAMILY_RULE)
    query = sa.select(problems.c.problem_id).select_from(known)
    return list(connection.scalars(query.order_by(FAMILY.collate("C"), problems.c.problem_id)))


def all_problems(connection: sa.Connection) -> dict[str, Problem]:
    """Every problem by id."""
    query = (
        sa.select(
            problems.c.problem_id,
            problems.c.name,
            problems.c.source_set,
            problems.c.level,
            problems.c.entry_point,
            problems.c.reference_sha256,
            FAMILY,
            problems.c.licence,
        )
        .select_from(problems.outerjoin(problem_features, SAME_FAMILY_RULE))
        .order_by(problems.c.problem_id)
    )
    return {str(identifier): Problem(*values) for identifier, *values in connection.execute(query)}


def problem_keys(connection: sa.Connection) -> list[tuple[str, str | None, str | None]]:
    """(Problem, family, semantic key) of every problem; None where a key is not known."""
    query = sa.select(problems.c.problem_id, problem_features.c.family, problems.c.operators)
    found = connection.execute(
        query.select_from(problems.outerjoin(problem_features, SAME_FAMILY_RULE))
    )
    return [(str(identifier), of_family, operators) for identifier, of_family, operators in found]


def all_runs(connection: sa.Connection) -> dict[str, Run]:
    """Every run by id."""
    query = sa.select(runs.c.run_id, runs.c.name, runs.c.model, runs.c.settings["licence"].astext)
    return {str(identifier): Run(*values) for identifier, *values in connection.execute(query)}


def all_preferences(connection: sa.Connection, as_of: datetime) -> list[tuple[str, str]]:
    """(chosen, rejected) evaluations as preferred by reviewers until then, oldest first."""
    query = (
        sa.select(preferences.c.chosen_evaluation_id, preferences.c.rejected_evaluation_id)
        .where(preferences.c.created_at < as_of)
        .order_by(preferences.c.created_at, preferences.c.preference_id)
    )
    return [(str(chosen), str(rejected)) for chosen, rejected in connection.execute(query)]
