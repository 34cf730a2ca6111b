"""The sample problems and candidates of a checkout, read through their own module `tests/zoo/__init__.py`.

They are no part of the installed package: `app` does not import tests, so the module is loaded from its file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Protocol

import app
from app.cli import failures


class Case(Protocol):
    """One candidate, its problem, and what line 1 of its file says must come out."""

    group: str
    backend: str
    status: str
    verdict: str
    findings: tuple[str, ...]
    speedup: str | None

    @property
    def name(self) -> str:
        """`hacks/cache_by_shape`."""

    @property
    def problem(self) -> str:
        """Name of the problem."""

    @property
    def candidate(self) -> bytes:
        """Source."""

    @property
    def reference(self) -> bytes:
        """The problem's source."""


def cases() -> dict[str, Case]:
    """Every sample by name, in order.  Raises BadInputError where there is no checkout."""
    folders = [parent / "tests" / "zoo" for parent in (Path(app.__file__).parents[1], Path.cwd())]
    for folder in folders:
        if (folder / "__init__.py").is_file():
            return {case.name: case for case in _module(folder / "__init__.py").cases()}
    expected = " or ".join(map(str, folders))
    raise failures.BadInputError(f"no samples: expected {expected}; run this in a checkout of the repository")


class _Zoo(Protocol):
    def cases(self) -> list[Case]: ...


def _module(path: Path) -> _Zoo:
    spec = importlib.util.spec_from_file_location("assay_zoo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def disagreement(case: Case, result: dict[str, object]) -> str | None:
    """How the result differs from what line 1 of the file says, or None."""
    if result["state"] != "finished":
        return f"expected a result, got state {result['state']}"
    findings: list[dict[str, str]] = result["findings"]  # type: ignore[assignment]
    found = tuple(sorted({finding["detector"] for finding in findings if finding["label"] != "clean"}))
    for name, expected, came in (
        ("status", case.status, result["status"]),
        ("verdict", case.verdict, result["verdict"]),
        ("findings", case.findings, found),
    ):
        if expected != came:
            return f"expected {name} {_plain(expected)}, got {_plain(came)}"
    speedup = result["speedup"]
    if case.speedup and isinstance(speedup, float) and (speedup > 1) != (case.speedup == ">1"):
        return f"expected a speedup {case.speedup}, got {speedup:.2f}"
    return None


def _plain(value: object) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)
