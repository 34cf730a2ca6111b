"""EXPORT: the first rows of a selection, from the few problems that have any.

Facts about texts are computed where they are missing, some milliseconds for each answer:
first the database is asked which evaluations the other stages leave.  Where these are
few, only they and their trajectories are read; of more, one problem is read after the
other, those without any left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from app.domain import filter_language as filters
from app.domain.dataset.decontamination import HeldOut, Index
from app.domain.dataset.selection import Kind, Source, Spec, Stale
from app.export import build, mismatch_rejection, text_facts
from app.export import draft as drafts
from app.export.draft import Draft
from app.export.plan_tables import PLAN
from app.export.problem_chunks import chunks
from app.export.render import Job, Renderer
from app.export.row_selection import Selector
from app.export.text_facts import Progress, silent
from app.store.dataset import export_matching, export_records
from app.store.dataset.export_matching import Matching
from app.store.postgres import time_limit
from app.store.postgres.database import Connection, Database
from app.store.postgres.time_limit import TimeOverError

AT_ONCE = 2_000
"""Evaluations that are read at once; of more, one problem after the other."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The first rows of a selection."""

    rows: list[dict[str, Any]]
    """Rows as the format shows them: `{"row", "evaluation_id", "problem", "split"}`."""
    is_whole: bool
    """False: time ran out before there were enough rows, and other problems may have more."""


def preview(
    database: Database,
    spec: Spec,
    rows: int = 5,
    *,
    progress: Progress = silent,
    patience_s: float = math.inf,
) -> Preview:
    """The first rows, or those that are found within some seconds."""
    filters.parse(spec.where)
    reading = _Reading(database, time.monotonic() + patience_s, progress)
    plans: list[pa.Table] = [PLAN.empty_table()]
    is_whole = True
    held_out = text_facts.held_out(database, spec.held_out)
    draft = drafts.now(database, spec)
    try:
        for plan in _plans(reading, draft, held_out):
            plans.append(plan)
            if (found := sum(map(len, plans))) >= 2 * rows:
                break
            reading.tell("selecting", found, 2 * rows)
    except TimeOverError:
        is_whole = False
    job = build.job(database, Path(), draft, held_out)
    return Preview(rows=_rendered(database, job, pa.concat_tables(plans), rows), is_whole=is_whole)


@dataclass(frozen=True)
class _Reading:
    """The database, read until a moment: statements and the computing of facts end then."""

    database: Database
    until_s: float
    progress: Progress

    def tell(self, stage: str, done: int, total: int) -> None:
        """Report progress; raises TimeOverError."""
        self.progress(stage, done, total)
        if time.monotonic() > self.until_s:
            raise TimeOverError

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A snapshot; raises TimeOverError, also from a statement that runs too long."""
        with (
            export_matching.reading(self.database) as connection,
            time_limit.until(connection, self.until_s),
        ):
            yield connection


def _plans(reading: _Reading, draft: Draft, held_out: list[HeldOut]) -> Iterator[pa.Table]:
    """Rows that are chosen, part by part of the selection."""
    reading.tell("matching", 0, 0)
    with reading.snapshot() as connection:
        only = build.matching(connection, draft)
        contaminated = text_facts.contaminated(
            reading.database, Index(held_out=held_out), reading.tell
        )
        chosen = build.selector(connection, draft, contaminated, only)
    for part in _parts(reading, draft, chosen, only):
        if draft.spec.source is not Source.PROBLEMS:
            build.judge_again(reading.database, draft.spec, reading.tell, part)
            build.facts(reading.database, draft, reading.tell, part)
        with reading.snapshot() as connection:
            for table in chunks(build.attempts(connection, draft, chosen, part)):
                plan = chosen.chunk(table).plan
                mismatch_rejection.require(connection, chosen.given.ratios, draft.as_of)
                yield plan


def _parts(
    reading: _Reading, draft: Draft, chosen: Selector, only: Matching | None
) -> Iterator[Matching | None]:
    """Parts of the selection that are read one after the other, in the order of the rows."""
    if draft.spec.source is Source.PROBLEMS:
        yield None
        return
    closed = {UUID(each) for each in chosen.closed()}
    few: Matching | None = None
    among: set[UUID] | None = None
    if not _may_need_none_left(draft):
        with reading.snapshot() as connection:
            kept = export_matching.matched_but_of(only, closed)
            left = export_matching.surviving(
                connection, chosen.given.conditions, draft.as_of, kept, AT_ONCE + 1
            )
            if len(left) <= AT_ONCE:
                few = export_matching.with_trajectories(connection, left)
                among = export_matching.problems_of(connection, left)
        if few is not None and not draft.kind.uses_failures:
            yield few
            return
    elif only is not None:
        yield only
        return
    order = [
        each for each in _order(reading) if each not in closed and (among is None or each in among)
    ]
    for number, problem_id in enumerate(order):
        reading.tell("matching", number, len(order))
        if (
            among is not None
            or _may_need_none_left(draft)
            or _is_left(reading, draft, chosen, problem_id)
        ):
            with reading.snapshot() as connection:
                part = export_matching.of_problem(connection, problem_id)
            yield part


def _may_need_none_left(draft: Draft) -> bool:
    """Rows may be made where the database leaves no evaluation: of those that it
    drops, or that are judged again.
    """
    return draft.kind.takes_all or draft.kind is Kind.LABELLED or draft.spec.stale is Stale.REJUDGE


def _is_left(reading: _Reading, draft: Draft, chosen: Selector, problem_id: UUID) -> bool:
    with reading.snapshot() as connection:
        here = export_matching.asked_of(problem_id)
        return bool(
            export_matching.surviving(connection, chosen.given.conditions, draft.as_of, here, 1)
        )


def _order(reading: _Reading) -> list[UUID]:
    with reading.snapshot() as connection:
        return export_records.problem_order(connection)


def _rendered(database: Database, job: Job, plan: pa.Table, rows: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with Renderer(job) as renderer, database.begin() as connection:
        for facts, example in renderer.examples(connection, plan):
            if isinstance(example, ValueError):
                continue
            own = {
                "evaluation_id": facts.evaluation_id,
                "problem": facts.problem,
                "split": example.split,
            }
            found.append({"row": renderer.row(example)} | own)
            if len(found) == rows:
                break
    return found
