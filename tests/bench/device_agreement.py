"""Do two devices agree which candidates are right?  Two files of rows, of the bench
for pairs or of the zoo.

    python -m tests.bench.peers DIR --device cpu --budget 0 --json cpu.json
    python -m tests.bench.peers DIR --device h200 --json h200.json
    python -m tests.bench.device_agreement cpu.json h200.json

A candidate runs on both where each says `passed` or `incorrect`; the rest is counted by status.  Of
those that passed on both the labels are compared, too.  Prints every difference with both messages.
Exit code 1 where fewer than --least agree on correctness, or none runs on both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain.evaluation import Status

DECIDED = (Status.PASSED, Status.INCORRECT)

LEAST = 0.99

Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two devices, side by side."""

    shared: int
    """Candidates in both files."""
    ran: int
    """Decided on both."""
    differing: tuple[str, ...]
    """Passed on one and incorrect on the other."""
    passed: int
    """Passed on both."""
    labelled_otherwise: tuple[str, ...]
    not_run: Counter[tuple[str, str]]
    """Statuses of the rest, first and second device."""

    @property
    def share(self) -> float | None:
        """Share of those that ran; None if none did."""
        return 1 - len(self.differing) / self.ran if self.ran else None


def rows(path: Path) -> Rows:
    """Rows by name.  Raises ValueError for a file without them."""
    found = json.loads(path.read_text())
    try:
        return {row["name"]: row for row in found["rows"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: expected rows with names, got {str(found)[:80]}") from error


def compare(first: Rows, second: Rows) -> Agreement:
    """The candidates of both."""
    names = [name for name in first if name in second]
    both = {name: (first[name]["status"], second[name]["status"]) for name in names}
    ran = [name for name, statuses in both.items() if all(status in DECIDED for status in statuses)]
    passed = [name for name in ran if set(both[name]) == {Status.PASSED}]
    return Agreement(
        shared=len(names),
        ran=len(ran),
        differing=tuple(name for name in ran if len(set(both[name])) > 1),
        passed=len(passed),
        labelled_otherwise=tuple(
            name for name in passed if _label(first[name]) != _label(second[name])
        ),
        not_run=Counter(both[name] for name in names if name not in ran),
    )


def _label(row: dict[str, Any]) -> str:
    return str(row.get("label") or row.get("verdict"))


def lines(found: Agreement, first: Rows, second: Rows) -> list[str]:
    """The figures and every difference, for people."""
    share = "–" if found.share is None else f"{found.share:.2%}"
    text = [
        f"{found.shared} in both files, {found.ran} ran on both: {share} agree on correctness",
        f"{found.passed} passed on both, {len(found.labelled_otherwise)} with another label",
    ]
    text += [
        f"not run: {count} × {one}, {other}" for (one, other), count in found.not_run.most_common()
    ]
    for name in (*found.differing, *found.labelled_otherwise):
        text.append(f"✗ {name}: {_said(first[name])} | {_said(second[name])}")
    return text


def _said(row: dict[str, Any]) -> str:
    named = f" ({', '.join(row['findings'])})" if row.get("findings") else ""
    return f"{row['status']} {_label(row)}{named} {str(row.get('message') or '')[:160]}".rstrip()


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument(
        "--least", type=float, default=LEAST, help="share that must agree on correctness"
    )
    arguments = parser.parse_args()
    try:
        first, second = rows(arguments.first), rows(arguments.second)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    found = compare(first, second)
    print("\n".join(lines(found, first, second)))
    sys.exit(int(found.share is None or found.share < arguments.least))


if __name__ == "__main__":
    main()
