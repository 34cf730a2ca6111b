"""EXPORT: what the web has done by a process of its own: `python -m app.export.errands make|funnel|preview|diff`.

The web serves from one event loop, which selecting and rendering would stop.  `make` takes a job by its id and says in
its row how far it is; the others read JSON from standard input and answer with JSON on standard output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from app import export
from app.domain import source
from app.plugins import UnknownPluginError
from app.settings import Settings, located
from app.store import export_jobs
from app.store.session import Database

BEAT_S = 0.5
"""Least time between two words on how far it is, in seconds."""


class CancelledError(Exception):
    """Nobody wants it any more."""


def make(database: Database, export_job_id: UUID) -> bool:
    """Make the dataset of a job; False where it is not to be had, because it is over or somebody is at it."""
    with database.begin() as connection:
        job = export_jobs.begin(connection, export_job_id)
    if job is None:
        return False
    try:
        manifest = export.export(
            database, export.spec_of(job.spec), Path(job.directory), progress=_Beat(database, export_job_id)
        )
    except CancelledError:
        _ended(database, lambda connection: export_jobs.cancelled(connection, export_job_id))
    except Exception as error:  # noqa: BLE001 (whatever it was, somebody waits for word of it)
        text = source.printable(f"{type(error).__name__}: {error}")
        _ended(database, lambda connection: export_jobs.fail(connection, export_job_id, text))
    else:
        _ended(database, lambda connection: export_jobs.finish(connection, export_job_id, UUID(manifest.export_id)))
    return True


def answer(database: Database, errand: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What the errand finds, or `{"error": …}` where what was asked for makes no sense."""
    try:
        if errand == "diff":
            return export.diff(Path(asked["before"]), Path(asked["after"]))
        spec = export.spec_of(asked["spec"])
        if errand == "funnel":
            return export.funnel(database, spec)
        return {"rows": export.preview(database, spec, asked["rows"])}
    except (ValueError, UnknownPluginError, FileNotFoundError) as error:
        return {"error": str(error)}


class _Beat:
    """Progress that is written to the job's row, and stops the work where it is not wanted any more."""

    def __init__(self, database: Database, export_job_id: UUID) -> None:
        self._database = database
        self._export_job_id = export_job_id
        self._at_s = 0.0
        self._stage = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage == self._stage and now - self._at_s < BEAT_S:
            return
        self._stage, self._at_s = stage, now
        with self._database.begin() as connection:
            wanted = export_jobs.progress(connection, self._export_job_id, stage, done, total)
        if not wanted:
            raise CancelledError


def _ended(database: Database, word: Callable[[Any], None]) -> None:
    with database.begin() as connection:
        word(connection)


def main(arguments: list[str]) -> int:
    """Run one errand; exit code 2 for one that does not exist."""
    if not arguments or arguments[0] not in ("make", "funnel", "preview", "diff"):
        sys.stderr.write(f"expected make, funnel, preview or diff, got {arguments!r}\n")
        return 2
    database = Database(located(Settings.from_env()).database_url or "")
    if arguments[0] == "make":
        make(database, UUID(arguments[1]))
    else:
        sys.stdout.write(json.dumps(answer(database, arguments[0], json.load(sys.stdin)), default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
