"""EXPORT: the work on one dataset: a folder beside its target, filled part by part,
renamed into place whole.

    .<name>.unfinished/   draft.json      settings, and the moment of the database they apply to
                          plan-<n>.arrow  attempts that the rows of a part are made of
                          part-<n>.json   a part that is done
                          data/ lineage-<n>.parquet decisions-<n>.parquet

Killed, it is taken up again by the same call: the selection is made again as of the recorded
moment, and parts with the same plan and with their files present are not rendered again.  A lock
keeps two from writing one folder (`app.export.working_folder`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app import formats
from app.domain.backend import DEFAULT_BACKEND
from app.domain.dataset.decontamination import HeldOut, Index, Match
from app.domain.dataset.profiling_rejection import Draw, Ratio
from app.domain.dataset.selection import Kind, Source, Spec, Stale, Turns
from app.export import (
    funnel_stages,
    mismatch_rejection,
    plan_tables,
    problem_chunks,
    text_facts,
    turn_credits,
)
from app.export.draft import Draft
from app.export.plan_tables import PLAN
from app.export.render import Job, Part
from app.export.render_pool import Pool
from app.export.render_worker import frugal
from app.export.row_selection import Selector
from app.export.selection_inputs import Inputs
from app.export.text_facts import Progress
from app.export.writers import DECISIONS_STEM, write_columns
from app.store.dataset import (
    answers_without_code,
    export_attempts,
    export_conditions,
    export_matching,
    export_records,
    label_changes,
    problem_rows,
    quoted_answers,
)
from app.store.dataset.export_matching import Matching
from app.store.dataset.export_records import Problem
from app.store.evaluation import hacked_sources
from app.store.postgres.database import Database

PART_ROWS = 10_000
"""Rows of one file, and the most that each process loses if an export is killed."""
DECISION_ROWS = 50_000
"""Rows of one file of decisions, and of its buffer in memory."""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """Result of a selection."""

    chosen: Selector
    """Selector that decided: its stages and its funnel."""
    contaminated: dict[str, Match]
    parts: list[Part]
    problems: dict[str, Problem]


def run(database: Database, root: Path, draft: Draft, progress: Progress) -> Selected:
    """Select attempts and render them; afterwards every table of the dataset is in the folder."""
    held_out = text_facts.held_out(database, draft.spec.held_out)
    contaminated = text_facts.contaminated(database, Index(held_out=held_out), progress)
    with (
        frugal(),
        Pool(job(database, root, draft, held_out)) as pool,
        export_matching.reading(database) as connection,
    ):
        progress("matching", 0, 0)
        # a verdict or a review that came while facts were computed
        newer = label_changes.any_since(connection, draft.as_of)
        draft = replace(draft, replay=draft.replay or newer)
        only = matching(connection, draft)
        chosen = selector(connection, draft, contaminated, only)
        _select(connection, root, draft, chosen, only, pool, progress)
        mismatch_rejection.require(connection, chosen.given.ratios, draft.as_of)
        parts = pool.finish(progress)
        problems = export_records.all_problems(connection)
    return Selected(chosen=chosen, contaminated=contaminated, parts=parts, problems=problems)


def job(database: Database, root: Path, draft: Draft, held_out: Iterable[HeldOut]) -> Job:
    """Settings of the processes that render the draft's rows."""
    spec = draft.spec
    return Job(
        database_url=database.url.render_as_string(hide_password=False),
        root=root,
        format=spec.format,
        kind=draft.kind,
        reasoning=spec.reasoning,
        held_out=tuple(held_out),
        source=spec.source,
        tokenizer=spec.tokenizer,
        max_tokens=spec.max_tokens,
        credited=spec.advantages is not None,
    )


def judge_again(
    database: Database, spec: Spec, progress: Progress, only: Matching | None = None
) -> None:
    """Verdicts of this version, where they were asked for: of `only` these attempts, by default of
    all that the selection may look at.
    """
    if spec.stale is not Stale.REJUDGE:
        return
    if only is None:
        with export_matching.reading(database) as connection:
            only = export_matching.to_judge(connection, spec)
    text_facts.rejudge_stale(database, text_facts.policy_of(spec), progress, only)


def facts(
    database: Database, draft: Draft, progress: Progress, only: Matching | None = None
) -> None:
    """Compute every fact that the selection needs and the database lacks; `only` of these
    attempts.  After the draft's moment is fixed, so that no attempt before it is without.
    """
    if only is None and draft.spec.source is not Source.PROBLEMS:
        progress("matching", 0, 0)
        with export_matching.reading(database) as connection:
            only = matching(connection, draft)
    text_facts.facts(database, draft.spec, draft.kind, progress, only)


def matching(connection: Any, draft: Draft) -> Matching | None:
    """Attempts that the draft's filter keeps, if they are few.  A replay reads all,
    because verdicts differed then.
    """
    if draft.replay or draft.spec.source is Source.PROBLEMS:
        return None
    return export_matching.matching(connection, draft.spec, draft.as_of)


def selector(
    connection: Any, draft: Draft, contaminated: dict[str, Match], only: Matching | None = None
) -> Selector:
    """Selector for that draft."""
    format_ = formats.find(draft.spec.format)
    if draft.spec.source is Source.PROBLEMS:
        return _problem_selector(connection, draft, contaminated, splits=format_.splits)
    device = export_conditions.device_of(
        connection, draft.spec, draft.as_of, export_matching.matched(only)
    )
    prefix = export_attempts.as_it_was(draft.as_of) if draft.replay else ""
    codeless = None
    if device is not None and not export_conditions.is_only_device(connection, device):
        codeless = answers_without_code.measured_on(device, draft.as_of)
    conditions = export_conditions.conditions(
        draft.spec,
        draft.kind,
        policy=draft.policy,
        detectors=draft.detectors,
        device=device,
        hacked=hacked_sources.found(connection, draft.policy, draft.as_of, prefix=prefix),
        codeless_on_device=codeless,
    )
    declared = draft.spec.advantages
    book = (
        turn_credits.book(connection, declared, as_of=draft.as_of, replay=draft.replay)
        if declared
        else None
    )
    preferences = (
        export_records.all_preferences(connection, draft.as_of) if draft.kind is Kind.PAIRS else []
    )
    inputs = Inputs(
        spec=draft.spec,
        kind=draft.kind,
        conditions=conditions,
        device=device,
        contaminated=contaminated,
        benchmarks=text_facts.benchmarked(connection) if format_.splits else None,
        preferences=preferences,
        learns=format_.learns,
        book=book,
        ratios=(
            mismatch_rejection.read(connection, draft.spec.mrs, draft.as_of)
            if draft.spec.mrs
            else None
        ),
        quotes=(
            quoted_answers.found(connection, draft.policy, draft.as_of, prefix=prefix)
            if draft.kind.shows_history or draft.kind is Kind.RL_PROMPTS
            else {}
        ),
    )
    return Selector(inputs)


def _problem_selector(
    connection: Any, draft: Draft, contaminated: dict[str, Match], *, splits: bool
) -> Selector:
    """Selector for a draft whose rows are problems."""
    inputs = Inputs(
        spec=draft.spec,
        kind=draft.kind,
        conditions=problem_rows.conditions(draft.spec),
        contaminated=contaminated,
        benchmarks=text_facts.benchmarked(connection) if splits else None,
        rates=(
            problem_rows.rates(connection, draft.spec.rate_run, draft.as_of)
            if draft.spec.rate_run
            else {}
        ),
    )
    return Selector(inputs)


def attempts(
    connection: Any, draft: Draft, chosen: Selector, only: Matching | None = None
) -> Iterator[pa.RecordBatch]:
    """Attempts, or problems, that the selector decides about."""
    if draft.spec.source is Source.PROBLEMS:
        return problem_rows.batches(
            connection,
            chosen.given.conditions,
            draft.spec.backends or (DEFAULT_BACKEND,),
            as_of=draft.as_of,
        )
    return export_attempts.attempts(
        connection,
        chosen.given.conditions,
        as_of=draft.as_of,
        signatures=draft.spec.similarity == "minhash" and not draft.kind.takes_all,
        ends=draft.kind is Kind.REWARDS or _goes_by_lines(draft.spec),
        prompts=draft.kind in (Kind.PAIRS, Kind.RL_PROMPTS),
        replay=draft.replay,
        only=only,
    )


def _goes_by_lines(spec: Spec) -> bool:
    """True if a decision depends on a turn's line (app.store.trajectory.attempt_lines)."""
    return (
        spec.turns in (Turns.FINAL, Turns.RETURN_TO_GO)
        or spec.prs_draw is Draw.TRAJECTORY
        or spec.prs_ratio is Ratio.GEOMETRIC
    )


def _select(
    connection: Any,
    root: Path,
    draft: Draft,
    chosen: Selector,
    only: Matching | None,
    pool: Pool,
    progress: Progress,
) -> None:
    """Decide chunk by chunk; a part of the plan is handed over as soon as it is full."""
    chosen.funnel.total = export_attempts.count(connection, draft.as_of)
    total = chosen.funnel.total if only is None else len(only.evaluation_ids)
    waiting: list[pa.Table] = []
    for old in root.glob(f"{DECISIONS_STEM}-*"):  # left by an interrupted call
        old.unlink()
    decided = _Decisions(root)
    number = seen = planned = 0
    for table in problem_chunks.chunks(attempts(connection, draft, chosen, only)):
        chunk = chosen.chunk(table)
        decided.add(chunk.decisions)
        seen += len(table)
        progress("selecting", seen, total)
        waiting.append(chunk.plan)
        planned += len(chunk.plan)
        if planned * total > PART_ROWS * seen:  # at this rate there will be more than one part
            pool.start()
        while sum(map(len, waiting)) >= PART_ROWS:
            whole = pa.concat_tables(waiting)
            pool.add(number, _write_plan(root, number, whole.slice(0, PART_ROWS)))
            waiting, number = [whole.slice(PART_ROWS)], number + 1
    if only is None:
        chosen.funnel.total = seen
    rest = pa.concat_tables(waiting) if waiting else PLAN.empty_table()
    if len(rest):
        pool.add(number, _write_plan(root, number, rest))
    decided.write()


class _Decisions:
    """Files with the decision about every attempt that the filter keeps."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._waiting: list[pa.Table] = []
        self._files = 0

    def add(self, decisions: pa.Table) -> None:
        kept = pc.not_equal(decisions.column("stage"), funnel_stages.WHERE)
        self._waiting.append(decisions.filter(kept))
        if sum(map(len, self._waiting)) >= DECISION_ROWS:
            self.write()

    def write(self) -> None:
        if self._waiting:
            path = self._root / f"{DECISIONS_STEM}-{self._files:05}.parquet"
            write_columns(path, [pa.concat_tables(self._waiting)], plan_tables.DECISIONS)
            self._waiting, self._files = [], self._files + 1


def _write_plan(root: Path, number: int, plan: pa.Table) -> str:
    """Write a part of the plan; returns its hash."""
    path = root / f"plan-{number:05}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, PLAN) as writer:
        writer.write_table(plan)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
