"""COLLECT: a specification as a client takes it: its files become stored problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from app.domain.collection import spec as specs
from app.domain.problem import ADHOC, Problem
from app.domain.request import RequestError


def prepared(
    given: Mapping[str, Any], folder: Path, add: Callable[[Problem], UUID]
) -> dict[str, Any]:
    """The whole specification, with the ids of problems in place of files.  `add` stores a problem.

    Raises RequestError before anything is stored."""
    value = specs.parse(given).as_json()
    paths = [folder / name for name in value["problems"]["files"]]
    found = [_read(path, value["problems"]["source_set"]) for path in paths]
    if found:
        value["problems"]["ids"] += [str(add(problem)) for problem in found]
        value["problems"]["files"] = []
    return value


def _read(path: Path, source_set: str | None) -> Problem:
    try:
        return Problem(name=path.stem, reference=path.read_bytes(), source_set=source_set or ADHOC)
    except OSError as error:
        raise RequestError(
            f"problems.files: expected a file that can be read, got {path}: {error.strerror}"
        ) from error
