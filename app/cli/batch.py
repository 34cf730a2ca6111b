"""`assay eval --batch`: many candidates from one file, in order, and again from where it stopped.

Results are appended in the order of the cases as soon as all before them are there, so that
an interrupted run leaves a readable file.  Only when a later run fills a hole is the file
written anew, whole, in order.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from app import enqueue
from app.cli import errors, output, services, submit_options
from app.client import Client, Submission
from app.client.submission import as_options
from app.domain import bounded_lines, ids
from app.domain.job import JobOptions, JobState
from app.domain.request import MissingError
from app.settings import Settings

REQUIRED = ("id", "reference", "candidate")
CHOSEN = ("backend", "gpu", "device", "priority", "run", "workflow")
"""Keys that a line may have; the command line gives them for all other lines."""
KNOWN = (*REQUIRED, *CHOSEN)
LONGEST_LINE = 1 << 20
"""Bytes of a case, which holds names and paths alone."""

Row = dict[str, Any]

_USUAL: Row = {"workflow": Submission.workflow, "device": None, "options": {}}
"""Keys of a result that only results of other values have."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A valid line of a batch."""

    place: str
    """File and line, for messages."""
    case_id: str
    submission: Submission

    @property
    def key(self) -> Row:
        """Key that makes an existing result the result of this case.  Values that are the default
        are not part of it, so that results of before they were stay valid.
        """
        given = asdict(as_options(self.submission.options))
        named = {
            "workflow": self.submission.workflow,
            "device": self.submission.device,
            "options": json.loads(json.dumps(_changed(given, asdict(JobOptions())))),
        }
        return {
            "id": self.case_id,
            "reference_sha256": self.submission.request().problem.reference_sha256,
            "candidate_sha256": ids.sha256(self.submission.request().candidate or b""),
            "backend": self.submission.backend,
            "gpu": self.submission.gpu,
            **{name: value for name, value in named.items() if value != _USUAL[name]},
        }


@dataclass(kw_only=True)
class Tally:
    """Counts of a batch."""

    cases: int = 0
    reused: int = 0
    bad_lines: list[str] = field(default_factory=list)
    ids: dict[str, None] = field(default_factory=dict)
    """Ids in the order of their lines, those of bad lines among them."""
    statuses: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    """Jobs that failed by Assay's fault."""
    unserved: Counter[str] = field(default_factory=Counter)
    """Device class without a worker → its cases, which were not submitted."""

    @property
    def exit_code(self) -> int:
        """2 where a line was bad, 3 where a job failed by Assay's fault or waits, else 0."""
        if self.bad_lines:
            return errors.USAGE
        return errors.INFRASTRUCTURE if self.failed or self.unserved else errors.OK

    def refuse(self, place: str, error: Exception) -> None:
        """Report a bad line, and count it."""
        self.bad_lines.append(f"{place}: {output.safe(str(error)[:500])}")
        click.echo(f"error: {self.bad_lines[-1]}", err=True)

    def count(self, row: Row) -> None:
        """Take a result into account."""
        self.failed += row["state"] == JobState.FAILED
        name = row["status"] or row["state"]
        self.statuses[name] = self.statuses.get(name, 0) + 1


def run(settings: Settings, cases_path: Path, out: Path, options: Mapping[str, Any]) -> Tally:
    """Evaluate every case and write `out`, in which the result of a line that cannot be read now
    stays.  Raises BadInputError where `out` holds something else's results.
    """
    tally = Tally()
    out.parent.mkdir(parents=True, exist_ok=True)
    cases = list(read(cases_path, options, tally))
    done = existing(out, set(tally.ids))
    kept = (
        {}
        if options.get("fresh")
        else {c.case_id: done[c.case_id] for c in cases if _is_result(done, c)}
    )
    tally.cases, tally.reused = len(cases), len(kept)
    missing = [case for case in cases if case.case_id not in kept]
    rows = dict(kept)
    if missing:
        with out.open("a", encoding="utf-8") as file:
            for row in evaluated(settings, missing, tally):
                rows[row["id"]] = row
                file.write(line(row))
                file.flush()
    for row in rows.values():
        tally.count(row)
    unread = tally.ids.keys() - {case.case_id for case in cases}
    rows |= {name: done[name] for name in unread if name in done}
    put_in_order(out, [rows[name] for name in tally.ids if name in rows])
    return tally


def read(path: Path, options: Mapping[str, Any], tally: Tally) -> Iterator[Case]:
    """The good lines; the bad ones are reported, and counted in `tally`."""
    seen: dict[str, int] = {}
    with path.open("rb") as file:
        for number, text in bounded_lines.lines(file, LONGEST_LINE):
            if text is not None and not text.strip():
                continue
            fields: object = None
            place = f"{path}:{number}"
            try:
                fields = _json(text)
                found = case(fields, place, path.parent, options)
                if found.case_id in seen:
                    raise ValueError(
                        f"id {found.case_id!r} was already on line {seen[found.case_id]}"
                    )
            except (ValueError, OSError) as error:
                tally.refuse(place, error)
                if isinstance(fields, dict):
                    tally.ids[str(fields.get("id"))] = None
            else:
                seen[found.case_id] = number
                tally.ids[found.case_id] = None
                yield found


def case(fields: object, place: str, folder: Path, options: Mapping[str, Any]) -> Case:
    """A case from one line's JSON.  Raises ValueError or OSError with expected and
    actual values.
    """
    if not isinstance(fields, dict):
        raise ValueError(
            f"expected an object with {', '.join(REQUIRED)}, got {type(fields).__name__}"
        )
    if missing := [name for name in REQUIRED if name not in fields]:
        raise ValueError(f"expected {', '.join(REQUIRED)}; {', '.join(missing)} missing")
    if unknown := sorted(set(fields) - set(KNOWN)):
        raise ValueError(f"unknown field {', '.join(unknown)}; expected some of {', '.join(KNOWN)}")
    for name, value in fields.items():
        if not (isinstance(value, str) or (name == "id" and type(value) is int)):
            shown = (
                json.dumps(value)[:80]
                if not isinstance(value, dict | list)
                else type(value).__name__
            )
            raise ValueError(f"{name}: expected a string, got {shown}")
    chosen = dict(options) | {name: fields[name] for name in CHOSEN if name in fields}
    paths = {name: folder / fields[name] for name in ("reference", "candidate")}
    for name, path in paths.items():
        if not path.is_file():
            raise ValueError(f"{name}: expected a file, found none at {path}")
    submission = submit_options.submission(**paths, **chosen)
    checked = submit_options.checked(submission)
    return Case(place=place, case_id=str(fields["id"]), submission=checked)


def existing(out: Path, known: set[str]) -> dict[str, Row]:
    """Results that are there already, by id, the last one for each.  A torn last line,
    from a run that was killed, is cut off.  Raises BadInputError where the file holds
    anything but results of these cases.
    """
    if not out.exists():
        return {}
    data = out.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    rows: dict[str, Row] = {}
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            row = json.loads(text)
            rows[row["id"]] = row
        except (ValueError, TypeError, KeyError):
            raise errors.BadInputError(
                f"{out}:{number}: expected a result of this command, got something else"
            ) from None
    if strangers := sorted(set(rows) - known):
        raise errors.BadInputError(
            f"{out}: has results of other cases ({', '.join(strangers[:3])}): name another --out"
        )
    if len(whole) != len(data):
        os.truncate(out, len(whole))
    return rows


def evaluated(settings: Settings, cases: list[Case], tally: Tally) -> Iterator[Row]:
    """Results of the cases, in order, each as soon as all before it are there; none of those whose
    device class has no worker, which are counted in `tally`.
    """
    with ExitStack() as stack:
        client = stack.enter_context(services.client(settings))
        workers = []
        for name, number in sorted(Counter(case.submission.gpu for case in cases).items()):
            try:
                workers.append(stack.enter_context(services.Worker(settings, client, name)))
            except services.NoWorkerError as error:
                tally.unserved[name] = number
                click.echo(f"error: {number} cases: {error}", err=True)
        served = [case for case in cases if case.submission.gpu not in tally.unserved]
        cases = list(_on_known_devices(client, served, tally))
        bar = stack.enter_context(output.progress("evaluating"))
        total = tally.cases - tally.unserved.total()
        task = bar.add_task("cases", total=total, completed=tally.reused)

        def check() -> None:
            for worker in workers:
                worker.check()

        job_ids = [
            handle.job_id for handle in client.submit_many([case.submission for case in cases])
        ]
        asked = Counter(job_ids)  # identical cases share a job
        done: dict[UUID, Row] = {}
        at = 0
        for job_id in submit_options.over(client, set(job_ids), check):
            done[job_id] = dict(client.results([job_id])[0])
            bar.advance(task, asked[job_id])
            while at < len(cases) and job_ids[at] in done:
                yield cases[at].key | done[job_ids[at]]
                at += 1


def _on_known_devices(client: Client, cases: Iterable[Case], tally: Tally) -> Iterator[Case]:
    """The cases without those for a device that was never there, which are bad lines."""
    unknown: dict[tuple[str, str], MissingError | None] = {}
    for case in cases:
        of_class, name = case.submission.gpu, case.submission.device
        if name is not None and (of_class, name) not in unknown:
            unknown[of_class, name] = _missing_device(client, case)
        error = None if name is None else unknown[of_class, name]
        if error is None:
            yield case
        else:
            tally.cases -= 1
            tally.refuse(case.place, error)


def _missing_device(client: Client, case: Case) -> MissingError | None:
    try:
        enqueue.check(client.database, [case.submission.request()])
    except MissingError as error:
        return error
    return None


def put_in_order(out: Path, rows: list[Row]) -> None:
    """Make `out` hold exactly these rows; written anew only where it does not yet."""
    wanted = "".join(line(row) for row in rows).encode()
    if out.exists() and out.read_bytes() == wanted:
        return
    draft = out.with_name(f".{out.name}.new")
    draft.write_bytes(wanted)
    draft.replace(out)


def line(row: Row) -> str:
    """A result as one line of JSON."""
    return json.dumps(row, allow_nan=False) + "\n"


def report(tally: Tally, out: Path, *, as_json: bool) -> None:
    """Say how it went, on standard output."""
    if as_json:
        counts = {
            "cases": tally.cases,
            "reused": tally.reused,
            "failed": tally.failed,
            "unserved": tally.unserved.total(),
            "statuses": tally.statuses,
        }
        output.json_out({**counts, "bad_lines": tally.bad_lines, "out": str(out)})
        return
    statuses = (
        ", ".join(f"{count} {name}" for name, count in sorted(tally.statuses.items())) or "none"
    )
    unserved = f"{tally.unserved.total()} without a worker; " if tally.unserved else ""
    click.echo(
        f"{tally.cases} cases ({tally.reused} there already): {statuses}; {unserved}"
        f"{len(tally.bad_lines)} bad lines; {out}"
    )


def _json(text: bytes | None) -> object:
    if text is None:
        raise ValueError(f"expected a line of at most {LONGEST_LINE} bytes")
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected one JSON object: {error}") from error
    except RecursionError:
        raise ValueError(
            "expected one JSON object, got brackets nested too deep to be read"
        ) from None


def _is_result(done: Mapping[str, Row], case: Case) -> bool:
    row = done.get(case.case_id)
    if row is None or row.get("state") != JobState.FINISHED:
        return False
    key = _USUAL | case.key
    return all(row.get(name, _USUAL.get(name)) == value for name, value in key.items())


def _changed(given: Row, usual: Row) -> Row:
    return {name: value for name, value in given.items() if value != usual[name]}
