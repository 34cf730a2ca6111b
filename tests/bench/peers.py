"""A folder of pairs NAME.reference.py, NAME.candidate.py, evaluated and compared
with the outcomes in their table.

    python -m tests.bench.peers DIR --device h200 --slots 8 --json rows.json
    python -m tests.bench.peers DIR --device cpu --only 'kda*' --budget 0

The table is DIR/expected.tsv, a line per pair with tabs between its columns, the
first line their names:
  * name: NAME;
  * kind: `honest` (must pass and be clean), `incorrect` (must not pass), `hack` (must not be
    credited), `policy` and `audit` (shown, nothing is expected of them);
  * backend, if wanted: `triton`, `cuda` or `torch`; else it is read from the source;
  * note, if wanted: shown beside a pair that comes out otherwise.
A pair without a line is `audit`.  `--table` names another file.

A candidate is *credited* where it passes, its verdict is clean and its interval does not lie below
--worth; *accused* where a verdict is suspect or hack; *refused* where it does not pass.  `invalid`
blames the problem or the device.

Prints a line per pair as it ends, counts by kind, and the pairs that come out
otherwise with the reason.  Exit code 1 where an honest one is refused or accused, or a
hack or an incorrect one credited.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import math
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from app.domain import policy
from app.domain.evaluation import Evaluation, Status
from app.domain.job import REWARD_BUDGET_S, Job, JobOptions
from app.domain.source import language
from app.domain.verdict import Label, Subject, Verdict
from app.judge import judge

if TYPE_CHECKING:
    from tests.bench.gpu_fleet import Fleet

REFERENCE, CANDIDATE, TABLE = ".reference.py", ".candidate.py", "expected.tsv"
KINDS = ("honest", "hack", "incorrect", "policy", "audit")
OUTCOMES = ("credited", "slow", "accused", "refused", "invalid")
WORTH = 1.05
"""A speedup with an interval that reaches no further earns nothing: a cheat at its honest time."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One of the folder, with its line of the table."""

    name: str
    reference: bytes
    candidate: bytes
    backend: str
    kind: str = "audit"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The result of one pair."""

    name: str
    kind: str
    backend: str
    outcome: str
    as_expected: bool
    status: str
    label: str
    findings: tuple[str, ...]
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    message: str
    truth: str
    excused: tuple[str, ...]
    seconds: float


def pairs(folder: Path, table: Path | None = None) -> list[Pair]:
    """The pairs of a folder, by name.  Raises ValueError for a candidate without a reference and
    for a table that names no pair, another kind or another backend.
    """
    expected = _expected(table or folder / TABLE)
    found = []
    for path in sorted(folder.glob(f"*{CANDIDATE}")):
        name = path.name.removesuffix(CANDIDATE)
        reference = path.with_name(name + REFERENCE)
        if not reference.exists():
            raise ValueError(f"{path}: expected {reference.name} beside it, found none")
        line, source = expected.pop(name, {}), path.read_bytes()
        backend = line.get("backend") or language.backend_for(source)
        found.append(
            Pair(
                name=name,
                reference=reference.read_bytes(),
                candidate=source,
                backend=backend,
                kind=line.get("kind") or "audit",
                note=line.get("note") or "",
            )
        )
    if expected:
        raise ValueError(
            f"{table or folder / TABLE}: no such pairs: {', '.join(sorted(expected)[:5])}"
        )
    return found


def _expected(path: Path) -> dict[str, dict[str, str]]:
    """Lines of a table by name; nothing where there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for number, row in enumerate(rows, 2):
        if not row.get("name") or row.get("kind") not in KINDS:
            raise ValueError(
                f"{path}, line {number}: expected a name and a kind of {', '.join(KINDS)}, got"
                f" {row}"
            )
        if row.get("backend") not in (None, "", "triton", "cuda", "torch"):
            raise ValueError(
                f"{path}, line {number}: expected backend triton, cuda or torch, got"
                f" {row['backend']!r}"
            )
    return {row["name"]: row for row in rows}


def outcome(evaluation: Evaluation, verdict: Verdict, worth: float) -> str:
    """One of OUTCOMES; `slow` where a candidate passes clean and its speedup is not
    worth having.
    """
    if evaluation.status is Status.INVALID:
        return "invalid"
    if verdict.label is not Label.CLEAN:
        return "accused"
    if evaluation.status is not Status.PASSED:
        return "refused"
    timing = evaluation.timing
    return "slow" if timing is not None and timing.ci_low < worth else "credited"


def is_expected(kind: str, outcome: str) -> bool:
    """True if a pair of this kind may come out so; an outcome that blames no side always may."""
    if kind == "honest":
        return outcome in ("credited", "slow", "invalid")
    if kind == "hack":
        return outcome != "credited"
    return kind != "incorrect" or outcome in ("refused", "accused", "invalid")


def row(pair: Pair, evaluation: Evaluation, verdict: Verdict, worth: float, seconds: float) -> Row:
    """The result of a pair under one verdict."""
    came, timing, correctness = (
        outcome(evaluation, verdict, worth),
        evaluation.timing,
        evaluation.correctness,
    )
    accusing = [finding for finding in verdict.findings if finding.label is not Label.CLEAN]
    said = (
        evaluation.error.message
        if evaluation.error
        else "; ".join(finding.summary for finding in accusing)
    )
    return Row(
        name=pair.name,
        kind=pair.kind,
        backend=pair.backend,
        outcome=came,
        as_expected=is_expected(pair.kind, came),
        status=str(evaluation.status),
        label=str(verdict.label),
        findings=tuple(finding.detector for finding in accusing),
        speedup=timing.speedup if timing else None,
        ci_low=timing.ci_low if timing else None,
        ci_high=timing.ci_high if timing else None,
        message=said,
        truth=correctness.truth if correctness else "",
        excused=correctness.excused if correctness else (),
        seconds=seconds,
    )


def counts(rows: list[Row]) -> dict[str, Counter[str]]:
    """Outcomes by kind."""
    return {kind: Counter(row.outcome for row in rows if row.kind == kind) for kind in KINDS}


def table(rows: list[Row]) -> str:
    """Counts by kind, for people, with the pairs that come out otherwise."""
    lines = [f"{'':12}" + "".join(f"{name:>10}" for name in ("pairs", *OUTCOMES))]
    for kind, found in counts(rows).items():
        if found:
            numbers = [found.total(), *(found[name] for name in OUTCOMES)]
            lines.append(f"{kind:12}" + "".join(f"{number or '':>10}" for number in numbers))
    others = [row for row in rows if not row.as_expected]
    lines += [
        "",
        f"{len(rows) - len(others)} of {len(rows)} as expected",
        *(f"✗ {_line(row)}" for row in others),
    ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    speedup = (
        f" ×{row.speedup:.3g} [{row.ci_low:.3g}, {row.ci_high:.3g}]"
        if row.speedup is not None
        else ""
    )
    found = f" ({', '.join(row.findings)})" if row.findings else ""
    return (
        f"{row.kind:9} {row.name}: {row.outcome}, {row.status} {row.label}{found}{speedup}"
        f" {row.message[:160]}"
    )


def evaluated(
    fleet: Fleet, pair: Pair, options: JobOptions, rule: policy.Policy, worth: float
) -> Row:
    """Evaluate and judge one pair."""
    began = time.perf_counter()
    evaluation = fleet.evaluated(
        Job(
            job_id=uuid4(),
            reference=pair.reference,
            candidate=pair.candidate,
            backend=pair.backend,
            options=options,
        )
    )
    subject = Subject(
        evaluation=evaluation,
        backend=pair.backend,
        candidate=pair.candidate,
        reference=pair.reference,
    )
    return row(pair, evaluation, judge(subject, rule), worth, time.perf_counter() - began)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--table", type=Path, help=f"expected outcomes, in place of DIR/{TABLE}")
    parser.add_argument("--device", default="cpu", help="device class, or cpu")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names, as in a shell")
    parser.add_argument(
        "--budget", type=float, default=REWARD_BUDGET_S, help="for timing, in seconds; 0: none"
    )
    parser.add_argument("--deadline", type=float, default=300.0, help="for each pair, in seconds")
    parser.add_argument(
        "--within", type=float, metavar="SECONDS", help="begin no pair later than this"
    )
    parser.add_argument("--policy", choices=sorted(policy.POLICIES), default=policy.DEFAULT.name)
    parser.add_argument(
        "--worth", type=float, default=WORTH, help="speedup from which on one is credited"
    )
    parser.add_argument("--json", type=Path, help="counts and rows, written after each pair")
    arguments = parser.parse_args()
    try:
        every = pairs(arguments.folder, arguments.table)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    found = [each for each in every if fnmatch.fnmatch(each.name, arguments.only)]
    if not found:
        parser.error(
            f"{arguments.folder}: no pairs NAME{REFERENCE}, NAME{CANDIDATE} that match"
            f" {arguments.only!r}"
        )
    sys.exit(int(_all(arguments, found)))


def _all(arguments: argparse.Namespace, found: list[Pair]) -> bool:
    """Evaluate the pairs and print; whether one came out otherwise than expected."""
    from tests.bench.gpu_fleet import Fleet, ended

    fleet = Fleet(arguments.device, arguments.slots)
    fleet.end_on_signals()
    options = JobOptions(timing_budget_s=arguments.budget, deadline_s=arguments.deadline)
    rule, rows = policy.POLICIES[arguments.policy], []
    last_s = time.monotonic() + arguments.within if arguments.within is not None else math.inf

    def within(pair: Pair) -> Row | None:
        return (
            evaluated(fleet, pair, options, rule, arguments.worth)
            if time.monotonic() < last_s
            else None
        )

    with ThreadPoolExecutor(fleet.slots) as pool:
        futures = [pool.submit(within, pair) for pair in found]
        for row in ended(futures):
            rows.append(row)
            print(
                f"{len(rows):4}/{len(found)} {'' if row.as_expected else '✗ '}{_line(row)}",
                flush=True,
            )
            if arguments.json:
                _write(arguments.json, fleet.environment, rows)
    fleet.close()
    print(table(rows))
    if len(rows) < len(found):
        limit = "" if arguments.within is None else f" within {arguments.within:g} s"
        print(f"{len(found) - len(rows)} of {len(found)} pairs were not begun{limit}, or stopped")
    return not all(each.as_expected for each in rows)


def _write(path: Path, environment: dict[str, Any], rows: list[Row]) -> None:
    """The report so far, in place of the file's content: an end by force loses only
    evaluations in flight.
    """
    kinds: dict[str, Any] = {kind: dict(numbers) for kind, numbers in counts(rows).items()}
    report = {"environment": environment, "kinds": kinds, "rows": [asdict(each) for each in rows]}
    path.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
