"""EXPORT: renders a part of the plan: reads texts, builds examples, writes rows, counts.

Several parts are rendered by separate processes.  Each part records its counts in `part-<n>.json`,
so a killed export continues with the missing parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from app import formats
from app.domain.dataset import example as examples
from app.domain.dataset.decontamination import HeldOut, Index
from app.domain.dataset.example import Example, Unfit
from app.domain.dataset.example_facts import EvaluationFacts, Extra, TurnCredits
from app.domain.dataset.example_texts import Texts
from app.domain.dataset.selection import COUNTER, Kind, Learns, Reasoning, Source
from app.export import tokens, turn_credits
from app.export.lineage import Lineage
from app.export.manifest import FileEntry
from app.export.plan_tables import FACTS
from app.export.text_cache import Library
from app.export.writers import JsonLines, ParquetTable
from app.formats import JSONL, Format
from app.store.dataset import export_records
from app.store.dataset.export_records import Problem, Run
from app.store.postgres.database import Connection, Database

TEXT_ROWS = 500
"""Rows with texts in memory at a time: a long conversation is about 100 kB."""

QUOTES = "quotes held-out"

NOWHERE = "none"
"""Device and protocol, in counts, of answers without code."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Settings of one export that a render process needs."""

    database_url: str
    root: Path
    format: str
    kind: Kind
    reasoning: Reasoning
    held_out: tuple[HeldOut, ...]
    source: Source = Source.EVALUATIONS
    tokenizer: str = COUNTER
    max_tokens: int | None = None
    """Most tokens of a row, counted by `tokenizer` if that is a file."""
    credited: bool = False
    """True if rows have the columns of advantages."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Outcome of rendering one part."""

    number: int
    plan_sha256: str
    files: tuple[FileEntry, ...]
    split: dict[str, int]
    memory_bytes: dict[str, int]
    dropped: list[tuple[str, str | None, str]]
    """(evaluation, turn, reason) of attempts that could not be shown."""
    tally: dict[str, dict[str, int]]
    """Counts for the manifest, by name."""

    def save(self, path: Path) -> None:
        """Write the record, last of all, atomically."""
        draft = path.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(asdict(self)))
        draft.rename(path)

    @classmethod
    def load(cls, path: Path) -> Part | None:
        """The record in that file; None if it cannot be read."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None


def tally(parts: list[Part], name: str) -> dict[str, int]:
    """One of the counts over all parts."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part.tally.get(name, {}))
    return dict(sorted(found.items()))


def part_path(root: Path, number: int) -> Path:
    """File that records a finished part."""
    return root / f"part-{number:05}.json"


def schema_of(chosen: Format, *, credited: bool) -> pa.Schema:
    """Columns of a format's rows, followed by those of advantages.  Raises
    ValueError for a duplicate name.
    """
    if not credited:
        return chosen.schema
    if taken := set(chosen.schema.names) & set(turn_credits.COLUMNS.names):
        raise ValueError(
            f"expected a format without the columns {', '.join(turn_credits.COLUMNS.names)}, got"
            f" {taken}"
        )
    return pa.schema([*chosen.schema, *turn_credits.COLUMNS])


class Renderer:
    """Renders parts of one export; holds its problems, runs, and held-out problems."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.format = formats.find(job.format)
        self.schema = schema_of(self.format, credited=job.credited)
        self.index = Index(held_out=job.held_out)
        self._count = tokens.counter(job.tokenizer) if job.max_tokens is not None else None
        own = job.source is Source.PROBLEMS
        self.library = Library(job.kind, sources=self.format.wants_source and not own, prompts=own)
        self.database = Database(job.database_url)
        with self.database.begin() as connection:
            self.problems = export_records.all_problems(connection)
            self.runs = export_records.all_runs(connection)

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.dispose()

    def part(self, number: int, plan_sha256: str) -> Part:
        """Render the plan `plan-<number>.arrow` of the job's folder."""
        with pa.memory_map(str(self.job.root / f"plan-{number:05}.arrow")) as source:
            plan = pa.ipc.open_file(source).read_all()
            _require_numbers(plan)
            part = self._part(number, plan_sha256, plan)
        part.save(part_path(self.job.root, number))
        return part

    def examples(
        self, connection: Connection, plan: pa.Table
    ) -> Iterator[tuple[EvaluationFacts, Example | Unfit]]:
        """An example for each line of a plan, or the reason why there is none."""
        for start in range(0, len(plan), TEXT_ROWS):
            yield from self._built(connection, plan.slice(start, TEXT_ROWS))

    def row(self, example: Example) -> dict[str, Any]:
        """The row of an example: the format's columns and, if requested, advantages."""
        found = self.format.render(example)
        return found | turn_credits.columns(example.extra.credit) if self.job.credited else found

    def _part(self, number: int, plan_sha256: str, plan: pa.Table) -> Part:
        tables: dict[str, ParquetTable | JsonLines] = {}
        seen: Counter[tuple[str, ...]] = Counter()
        dropped: list[tuple[str, str | None, str]] = []
        with self.database.begin() as connection:
            lineage = Lineage(connection, self.job.root, number)
            for start in range(0, len(plan), TEXT_ROWS):
                rows = plan.slice(start, TEXT_ROWS)
                hashes: list[str | None] = []
                for facts, example in self._built(connection, rows):
                    if isinstance(example, Unfit):
                        dropped.append((facts.evaluation_id, facts.turn_id, str(example)))
                        hashes.append(None)
                        continue
                    split = example.split
                    if split not in tables:
                        tables[split] = self._table(number, split)
                    hashes.append(tables[split].add(self.row(example)))
                    seen[_counted(example)] += 1
                lineage.add(rows, hashes)
            entry = lineage.close()
        entries = [table.close(self.job.root) for _, table in sorted(tables.items())]
        return Part(
            number=number,
            plan_sha256=plan_sha256,
            files=(*entries, entry),
            split={split: table.rows for split, table in tables.items()},
            memory_bytes={split: table.memory_bytes for split, table in tables.items()},
            dropped=dropped,
            tally=_tally(seen),
        )

    def _table(self, number: int, split: str) -> ParquetTable | JsonLines:
        if self.format.container == JSONL:
            return JsonLines(self.job.root / "data" / f"{split}-{number:05}.jsonl", self.schema)
        return ParquetTable(self.job.root / "data" / f"{split}-{number:05}.parquet", self.schema)

    def _built(
        self, connection: Connection, plan: pa.Table
    ) -> Iterator[tuple[EvaluationFacts, Example | Unfit]]:
        texts = self.library
        texts.turn_to(connection, plan)
        rejected = (
            list(self._facts(plan, "rejected_"))
            if self.job.kind is Kind.PAIRS
            else [None] * len(plan)
        )
        candidates = plan.column("candidate_id").to_pylist()
        worse = plan.column("rejected_candidate_id").to_pylist()
        extras = _extras(plan)
        splits = plan.column("split").to_pylist()
        places = plan.column("index").to_pylist()
        rows = zip(
            self._facts(plan, ""), candidates, rejected, worse, extras, splits, places, strict=True
        )
        for facts, candidate, against, other, extra, split, place in rows:
            try:
                answer = None
                if against is not None:
                    answer = self._build(texts.of(against, other), against).reply
                more = {
                    "rejected": answer,
                    "rejected_facts": against,
                    "extra": extra,
                    "split": split,
                    "index": place,
                }
                example = self._build(texts.of(facts, candidate), facts, **more)
                self._require_fit(example)
            except Unfit as unfit:
                yield facts, unfit
            else:
                yield facts, example

    def _build(self, texts: Texts, facts: EvaluationFacts, **more: Any) -> Example:
        return examples.build(texts, facts, self.job.kind, self.job.reasoning, **more)

    def _require_fit(self, example: Example) -> None:
        if self.format.learns is Learns.EVERY and example.quotes_answers:
            raise Unfit("its prompt quotes an answer, which would bear loss")
        if self._count is not None and self.job.max_tokens is not None:
            counted = self._count([message.content for message in example.shown])
            if counted > self.job.max_tokens:
                raise Unfit(f"tokens: expected at most {self.job.max_tokens}, got {counted}")
        if not len(self.index):
            return
        match = self.index.text("\n".join(message.content for message in example.shown))
        if match is not None:
            raise Unfit(f"{QUOTES}: {match}")

    def _facts(self, plan: pa.Table, prefix: str) -> Iterator[EvaluationFacts]:
        columns = {one.name: plan.column(prefix + one.name).to_pylist() for one in FACTS}
        problems = [self.problems[problem_id] for problem_id in columns["problem_id"]]
        runs = [self.runs.get(run_id, _NO_RUN) for run_id in columns["run_id"]]
        by_name = columns | _of_problems(problems) | _of_runs(runs)
        values = zip(*(by_name[name] for name in EvaluationFacts._fields), strict=True)
        return map(
            partial(tuple.__new__, EvaluationFacts), values
        )  # a third of the time of calling the class


_NO_RUN = Run(None, None, None)  # type: ignore[arg-type]  # of a candidate that came alone


def _of_problems(problems: list[Problem]) -> dict[str, list[Any]]:
    names = (
        "problem",
        "source_set",
        "level",
        "entry_point",
        "reference_sha256",
        "family",
        "problem_licence",
    )
    return dict(zip(names, map(list, zip(*problems, strict=True)), strict=True))


def _of_runs(runs: list[Run]) -> dict[str, list[Any]]:
    return dict(
        zip(("run", "model", "model_licence"), map(list, zip(*runs, strict=True)), strict=True)
    )


def _extras(plan: pa.Table) -> Iterable[Extra]:
    columns = [plan.column(name) for name in Extra._fields]
    if all(column.null_count == len(column) for column in columns):
        return repeat(Extra(), len(plan))
    return map(_extra, *(column.to_pylist() for column in columns))


def _extra(*values: Any) -> Extra:
    """Extra from the columns of a plan, where tuples are lists and the credit is a struct."""
    found = Extra(*values)
    if all(value is None for value in (found.train, found.rewards, found.returns, found.credit)):
        return found
    return found._replace(
        train=None if found.train is None else tuple(found.train),
        rewards=None if found.rewards is None else tuple(found.rewards),
        returns=None if found.returns is None else tuple(found.returns),
        credit=None if found.credit is None else TurnCredits(**found.credit),  # type: ignore[arg-type]  # a struct
    )


def _require_numbers(plan: pa.Table) -> None:
    """Raise ValueError for NaN or infinity: a trainer would fail hours later."""
    for name, column in zip(plan.schema.names, plan.columns, strict=True):
        if pa.types.is_list(column.type):
            column = pc.list_flatten(column)
        if pa.types.is_floating(column.type) and pc.any(pc.invert(pc.is_finite(column))).as_py():
            raise ValueError(f"{name}: expected finite numbers, got one that is not")


_COUNTED = (
    "hardware",
    "source_sets",
    "models",
    "licences",
    "prompt_sources",
    "problems",
    "families",
    "protocols",
    "sanitized",
)


def _counted(example: Example) -> tuple[str, ...]:
    """Values of _COUNTED: most rows of a problem share them, so that they are counted together."""
    facts = example.facts
    return (
        f"{facts.device_class or NOWHERE}\t{facts.device_name or NOWHERE}",
        facts.source_set,
        facts.model or "unknown",
        f"{facts.problem_licence or 'unknown'} / {facts.model_licence or 'unknown'}",
        example.prompt_source,
        facts.problem_id,
        facts.family,
        facts.protocol or NOWHERE,
        str(example.sanitized),
    )


def _tally(seen: Counter[tuple[str, ...]]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
    for values, count in seen.items():
        for name, value in zip(_COUNTED, values, strict=True):
            found[name][value] += count
    return {name: dict(counts) for name, counts in found.items()}
