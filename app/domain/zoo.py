"""The zoo: sample candidates with the expected result in their first line, and the
score of a system held to it.

A candidate's first line is read strictly:

    # zoo: problem=<name> backend=<triton|cuda|torch> status=<status> verdict=<label>
    findings=<detector,…|->
        [speedup=<>1|<1>] [needs=<cpu|gpu>]

(one line).  Findings are those that accuse: suspect or hack.  Where a GPU says
otherwise, line 2 holds its result:

    # on a gpu: status=<status> verdict=<label> findings=<detector,…|->

Only the standard library is needed, and no candidate is ever imported: sources are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain.backend import BACKENDS
from app.domain.evaluation import Status
from app.domain.problem import is_by_cases
from app.domain.verdict import Label

GROUPS = ("honest", "wrong", "broken", "hacks")
STATUSES = tuple(map(str, Status))
LABELS = tuple(map(str, Label))

_FINDINGS = r"(?P<findings>-|[a-z_]+(?:,[a-z_]+)*)"
_EXPECTED = rf"status=(?P<status>[a-z_]+) verdict=(?P<verdict>[a-z]+) findings={_FINDINGS}"
_FIRST = re.compile(
    rf"# zoo: problem=(?P<problem>[a-z0-9_]+) backend=(?P<backend>[a-z]+) {_EXPECTED}"
    r"(?: speedup=(?P<speedup>[<>]1))?(?: needs=(?P<needs>cpu|gpu))?"
)
_ON_GPU = re.compile(rf"# on a gpu: {_EXPECTED}")
_NOT_YET = b"# not yet caught:"
_BY_STRUCTURE = b"Stopped by structure"
_CODES = re.compile(r"\(((?:[1-8][a-k]?)(?:, [1-8][a-k]?)*)\)")


class ZooError(ValueError):
    """A zoo file with first lines that do not follow the form."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Expected result on one kind of device."""

    status: str
    verdict: str
    findings: tuple[str, ...]
    """Detectors with a finding that accuses, in alphabetical order."""
    speedup: str | None = None
    """`>1` or `<1` where any machine must agree."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One candidate, its problem, and the result expected of the system."""

    group: str
    """`honest`, `wrong`, `broken` or `hacks`."""
    path: Path
    problem_path: Path
    backend: str
    on_cpu: Expected
    on_gpu: Expected
    needs: str | None
    """`gpu` or `cpu` where it can run on no other."""

    @property
    def name(self) -> str:
        """Unique name, as printed by reports: `hacks/cache_by_shape`."""
        return f"{self.group}/{self.path.stem}"

    @property
    def problem(self) -> str:
        """Name of the problem."""
        return self.problem_path.stem

    @property
    def candidate(self) -> bytes:
        """The candidate's source; it need not be valid Python or valid UTF-8.

        Lines with expected results are empty: datasets and models see no answer, and
        errors name the file's lines.
        """
        _, *others = self.path.read_bytes().split(b"\n")
        if others and _ON_GPU.fullmatch(others[0].decode("ascii", "replace")):
            others[0] = b""
        return b"\n".join([b"", *others])

    @property
    def reference(self) -> bytes:
        """The problem's source."""
        return self.problem_path.read_bytes()

    @property
    def is_by_cases(self) -> bool:
        """True if the problem gives cases and no model."""
        return is_by_cases(self.reference)

    @property
    def status(self) -> str:
        """On the CPU device, or on the only device that it runs on."""
        return self.on_cpu.status

    @property
    def verdict(self) -> str:
        """Likewise."""
        return self.on_cpu.verdict

    @property
    def findings(self) -> tuple[str, ...]:
        """Likewise."""
        return self.on_cpu.findings

    @property
    def speedup(self) -> str | None:
        """Likewise."""
        return self.on_cpu.speedup

    @property
    def not_yet_caught(self) -> bool:
        """True if the file itself says that it cheats and that nothing sees it today."""
        return _NOT_YET in self.candidate

    @property
    def stopped_by_structure(self) -> bool:
        """True if the file explains that its trick gains nothing, seen or not: its
        measured time is its own.
        """
        return _BY_STRUCTURE in self.candidate

    @property
    def codes(self) -> tuple[str, ...]:
        """Ways of cheating that its text names, by the numbers of the zoo's README: `2c`, `4b`."""
        named = _CODES.search(self.candidate.decode("utf-8", "replace"))
        return tuple(named[1].split(", ")) if named and self.group == "hacks" else ()

    def expected(self, device_class: str) -> Expected:
        """Expected result on that device class."""
        return self.on_cpu if device_class == "cpu" else self.on_gpu

    def runs_on(self, device_class: str) -> bool:
        """True if it can be run there at all."""
        return self.needs in (None, "cpu" if device_class == "cpu" else "gpu")


def cases(root: Path) -> list[Case]:
    """Every candidate under `root`, by group and name.  Raises ZooError at the first
    malformed line.
    """
    return [case(path) for group in GROUPS for path in sorted((root / group).glob("*.py"))]


def problems(root: Path) -> list[Path]:
    """Every problem under `root`, by name."""
    return sorted((root / "problems").glob("*.py"))


def case(path: Path) -> Case:
    """Read one candidate's first lines.  Raises ZooError with the expected and the given text."""
    lines = [line.decode("ascii", "replace") for line in path.read_bytes().split(b"\n", 2)[:2]]
    match = _FIRST.fullmatch(lines[0])
    if match is None:
        raise ZooError(f"{path}: expected a first line like {_FIRST.pattern!r}, got {lines[0]!r}")
    _require(path, "backend", tuple(BACKENDS), match["backend"])
    problem_path = path.parents[1] / "problems" / f"{match['problem']}.py"
    if not problem_path.is_file():
        raise ZooError(
            f"{path}: problem {match['problem']!r} expects {problem_path}, which does not exist"
        )
    on_cpu = _expected(path, match, match["speedup"])
    second = _ON_GPU.fullmatch(lines[1]) if len(lines) > 1 else None
    if second is None and len(lines) > 1 and lines[1].startswith("# on a gpu"):
        raise ZooError(f"{path}: expected a second line like {_ON_GPU.pattern!r}, got {lines[1]!r}")
    # How fast something is in the interpreter says nothing about a GPU.
    speedup = match["speedup"] if match["needs"] == "gpu" else None
    return Case(
        group=path.parent.name,
        path=path,
        problem_path=problem_path,
        backend=match["backend"],
        on_cpu=on_cpu,
        on_gpu=_expected(path, second or match, None if second else speedup),
        needs=match["needs"],
    )


def _expected(path: Path, match: re.Match[str], speedup: str | None) -> Expected:
    _require(path, "status", STATUSES, match["status"])
    _require(path, "verdict", LABELS, match["verdict"])
    findings = () if match["findings"] == "-" else tuple(match["findings"].split(","))
    if findings != tuple(sorted(set(findings))):
        raise ZooError(
            f"{path}: findings: expected alphabetical order without repeats, got"
            f" {match['findings']!r}"
        )
    if (match["verdict"] == "clean") != (not findings):
        raise ZooError(
            f"{path}: verdict={match['verdict']} does not go with findings={match['findings']}"
        )
    if speedup and (match["status"], match["verdict"] == "hack") != ("passed", False):
        raise ZooError(
            f"{path}: speedup={speedup} needs status=passed and another verdict than hack"
        )
    return Expected(
        status=match["status"], verdict=match["verdict"], findings=findings, speedup=speedup
    )


def _require(path: Path, field: str, allowed: tuple[str, ...], came: str) -> None:
    if came not in allowed:
        raise ZooError(f"{path}: {field}: expected one of {', '.join(allowed)}, got {came!r}")


def disagreement(case: Case, result: Mapping[str, Any], device_class: str = "cpu") -> str | None:
    """Difference between a result (app.domain.result) and the file's expectation, or None."""
    if result["state"] != "finished":
        return f"expected a result, got state {result['state']}"
    wanted = case.expected(device_class)
    for name, expected, came in (
        ("status", wanted.status, result["status"]),
        ("verdict", wanted.verdict, result["verdict"]),
        ("findings", wanted.findings, accusing(result)),
    ):
        if expected != came:
            return f"expected {name} {_plain(expected)}, got {_plain(came)}"
    if wanted.speedup and result["speedup_ci"]:
        low, high = result["speedup_ci"]
        if (
            high < 1 if wanted.speedup == ">1" else low > 1
        ):  # an interval that holds 1 contradicts neither
            return (
                f"expected a speedup {wanted.speedup}, got {result['speedup']:.2f} [{low:.2f},"
                f" {high:.2f}]"
            )
    return None


def accusing(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Detectors with findings that weigh more than information, in alphabetical order."""
    return tuple(
        sorted({each["detector"] for each in result["findings"] if each["label"] != Label.CLEAN})
    )


def _plain(value: object) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)
