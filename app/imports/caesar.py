"""ENQUEUE: import of multi-turn logs as KernelBench's Caesar writes them.

    …/level<N>/…/problem_<P>/sample_<S>/log.json      "1" … "k": one object a turn

Of a turn are read: the prompt (`context`, `prompt` or `input`), the answer (`model_response` or
`response`), the code (`kernel_code`, else the answer's last block) and, as a claim, `eval_result`.
The problems must be here already (`assay import kernelbench`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from app.domain import kernelbench
from app.domain.problem import Problem
from app.domain.prompt_templates import fence
from app.domain.source import source_text
from app.domain.trajectory import Message
from app.imports.base import (
    Bad,
    BadImportError,
    Imported,
    Sample,
    SampleOptions,
    SampleTurn,
    attempted,
    check,
    code_of,
    store_samples,
)
from app.store.postgres.database import Database
from app.store.trajectory import imports

_PLACE = re.compile(
    r"level_?(?P<level>\d+)/(?:.*/)?problem_(?P<number>\d+)/(?:sample_(?P<sample>\d+)/)?log\.json$"
)
_PROMPTS, _ANSWERS, _CODES = (
    ("context", "prompt", "input"),
    ("model_response", "response"),
    ("kernel_code", "kernel"),
)


def caesar(database: Database, directory: Path, **options: Unpack[SampleOptions]) -> Imported:
    """Import every log.json below `directory` into one run: a trajectory each, a job
    for each turn with code.

    A log that cannot be read, or is of a problem that is not here, is left out and listed.
    BadImportError where there is none, or all are bad; nothing is stored then.
    """
    backend = options.get("backend")
    check(options.get("device_class", "cpu"), backend)
    paths = sorted(directory.rglob("log.json"))
    if not paths:
        raise BadImportError(
            f"{directory}: expected …/level<N>/…/problem_<P>/sample_<S>/log.json, found no log.json"
        )
    with database.begin() as connection:
        known = imports.numbered(connection, kernelbench.SOURCE_SET)
    read = list(attempted(paths, lambda path: _Log(path, directory)))
    logs = [each for each in read if isinstance(each, _Log)]
    bad = [each for each in read if isinstance(each, Bad)]
    claims = {log.label: [turn.get("eval_result") for turn in log.turns] for log in logs}
    return store_samples(
        database,
        chain(bad, attempted(logs, lambda log: log.sample(known, backend))),
        importer="caesar",
        named=f"caesar/{directory.resolve().name}",
        recorded={"eval_results": claims},
        options=options,
    )


class _Log:
    """One file."""

    def __init__(self, path: Path, root: Path) -> None:
        place = _PLACE.search(path.resolve().as_posix())
        if place is None:
            raise BadImportError(f"{path}: expected …/level<N>/…/problem_<P>/sample_<S>/log.json")
        self.path = path
        self.label = path.relative_to(root).as_posix()
        self.level, self.number = int(place["level"]), int(place["number"])
        self.turns = list(_turns(path))

    def sample(self, known: dict[tuple[int, int], Problem], backend: str | None) -> Sample:
        """Sample to store."""
        problem = known.get((self.level, self.number))
        if problem is None:
            raise BadImportError(
                f"{self.path}: problem {self.number} of level {self.level} is not here: import it"
                " first"
            )
        turns = tuple(
            self._attempt(number, turn) for number, turn in enumerate(self.turns, start=1)
        )
        return Sample(
            where=str(self.path),
            label=self.label,
            problem=problem,
            licence=None,
            turns=turns,
            backend=backend,
        )

    def _attempt(self, number: int, turn: dict[str, Any]) -> SampleTurn:
        prompt, answer, code = (_text(turn, names) for names in (_PROMPTS, _ANSWERS, _CODES))
        if (
            answer is None
            and code is None
            and any(turn.get(name) == "" for name in (*_ANSWERS, *_CODES))
        ):
            answer = ""  # the model said nothing: a turn without code
        if answer is None and code is None:
            expected = ", ".join((*_ANSWERS, *_CODES))
            raise BadImportError(
                f"{self.path}: turn {number}: expected one of {expected}, got"
                f" {', '.join(sorted(turn))}"
            )
        return SampleTurn(
            messages=() if prompt is None else (Message(role="user", content=prompt),),
            response=fence(code or "") if answer is None else answer,
            candidate=source_text.encode(code) if code else code_of(answer or ""),
        )


def _turns(path: Path) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadImportError(f"{path}: expected JSON: {error}") from error
    numbered = [key for key in found if key.isdigit()] if isinstance(found, dict) else []
    if not numbered or not all(isinstance(found[key], dict) for key in numbered):
        raise BadImportError(f'{path}: expected an object with a turn under "1", "2" …')
    for key in sorted(numbered, key=int):
        yield found[key]


def _text(turn: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next(
        (turn[name] for name in names if isinstance(turn.get(name), str) and turn[name]), None
    )
