"""EXPORT: datasets that a page or a request asks for, made by a process of their own.

    export_job_id = background.start(database, spec, folder)  # at once
    background.progress(database, export_job_id)  # state, stage, done, total, export_id, error
    background.cancel(database, export_job_id)

The process is a child of the requesting process, in a session of its own, so that it outlives a
request; if it is lost with its machine or its container, or never began, the state shows as
`interrupted` after a while, and `resume` goes on with the parts that are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from app import export
from app.domain import filter_language as filters
from app.domain import policy as policies
from app.domain.dataset.selection import Spec
from app.domain.source import source_text
from app.export.draft import kind_of
from app.export.manifest import spec_json, spec_of
from app.export.working_folder import OtherWriterError
from app.store.dataset import export_jobs, exports
from app.store.dataset.export_jobs import ExportJob
from app.store.postgres.database import Connection, Database, DatabaseUnavailableError

BEAT_S = 0.5
"""Seconds between two reports of progress."""
AWAY_S = 600.0
"""Longest absence of PostgreSQL that a job waits out, in seconds."""
RETRY_S = 1.0
"""Pause before the next attempt then, in seconds."""

MAKING = 2
"""Datasets made at a time: each takes a core of the database and one of its own."""
FOLDER = "datasets"
"""Name of the folder of exports in a server's state folder."""

RESUMABLE = ("queued", "interrupted")
"""States of a job that has no process, or may have none."""
URL = "ASSAY_DATABASE_URL"

Note: TypeAlias = Callable[[Connection, UUID], None]
"""Stores a record of the change, by the job's id, in the transaction that makes the change."""


class CancelledError(RuntimeError):
    """The export was cancelled on request."""


class BusyError(RuntimeError):
    """The limit of datasets made at the same time is reached."""


def start(database: Database, spec: Spec, folder: Path, note: Note | None = None) -> UUID:
    """Start making `folder/<id>`; returns the job's id.  Raises BusyError, and the errors of
    `export` for an invalid selection.
    """
    filters.parse(spec.where)
    kind_of(spec)
    if spec.policy is not None:
        policies.find(spec.policy)
    with database.begin() as connection:
        if export_jobs.under_way(connection) >= MAKING:
            raise BusyError(
                f"{MAKING} datasets are being made already: wait for one of them, or stop it"
            )
        export_job_id = export_jobs.add(connection, spec_json(spec), str(folder.absolute()))
        if note is not None:
            note(connection, export_job_id)
    _spawn(database, export_job_id)
    return export_job_id


def resume(database: Database, export_job_id: UUID, note: Note | None = None) -> None:
    """Resume a job after the loss of its process."""
    if note is not None:
        with database.begin() as connection:
            note(connection, export_job_id)
    _spawn(database, export_job_id)


def progress(database: Database, export_job_id: UUID) -> ExportJob | None:
    """Progress of a job; None if it does not exist."""
    with database.begin() as connection:
        return export_jobs.get(connection, export_job_id)


def cancel(database: Database, export_job_id: UUID, note: Note | None = None) -> bool:
    """Cancel a job; False if it has ended."""
    with database.begin() as connection:
        is_cancelled = export_jobs.cancel(connection, export_job_id)
        if is_cancelled and note is not None:
            note(connection, export_job_id)
    return is_cancelled


def run(database: Database, export_job_id: UUID) -> None:
    """Make the dataset of a job in this process; does nothing if another process
    makes it, or it has been made.  Goes on after PostgreSQL went away for less than AWAY_S;
    otherwise the job is interrupted, and `resume` goes on with it.
    """
    with database.begin() as connection:
        job = export_jobs.get(connection, export_job_id)
        if job is None or not export_jobs.claim(connection, export_job_id):
            return None
    reporter = _Reporter(database, export_job_id)
    while True:
        try:
            return _make(database, job, reporter)
        except DatabaseUnavailableError:
            if time.monotonic() - reporter.stored_s > AWAY_S:
                raise
            time.sleep(RETRY_S)


def _make(database: Database, job: ExportJob, reporter: _Reporter) -> None:
    """Make the dataset, unless it has been made, and store how the job ended."""
    directory = Path(job.directory)
    with database.begin() as connection:
        made = exports.in_folder(connection, source_text.printable(str(directory)))
    try:
        if made is None or not directory.exists():
            manifest = export.export(database, spec_of(job.spec), directory, progress=reporter)
            made = UUID(manifest.export_id)
    except OtherWriterError:
        return  # a process that had fallen silent, and goes on
    except CancelledError:
        with database.begin() as connection:
            export_jobs.cancelled(connection, job.export_job_id)
    except DatabaseUnavailableError:
        raise
    except Exception as error:
        told = source_text.printable(f"{type(error).__name__}: {error}")
        with database.begin() as connection:
            export_jobs.fail(connection, job.export_job_id, told)
        raise
    else:
        with database.begin() as connection:
            export_jobs.finish(connection, job.export_job_id, made)


class _Reporter:
    """Stores progress at intervals; raises CancelledError if the job was cancelled."""

    def __init__(self, database: Database, export_job_id: UUID) -> None:
        self._database = database
        self._export_job_id = export_job_id
        self._next_s = 0.0
        self.stored_s = time.monotonic()
        """Time of the last report that PostgreSQL has stored."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + BEAT_S
        with self._database.begin() as connection:
            ending = export_jobs.report(connection, self._export_job_id, stage, done, total)
        self.stored_s = time.monotonic()
        if ending:
            raise CancelledError("the export was cancelled")


def _spawn(database: Database, export_job_id: UUID) -> None:
    url = database.url.render_as_string(hide_password=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "app.export.background", str(export_job_id)],
        env=os.environ | {URL: url},  # not in the arguments: everybody on the machine reads those
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=process.wait, daemon=True).start()  # or it stays a zombie


def main() -> None:
    """Entry point of the child process.  A job's error is stored in its row; the
    traceback goes to standard error.
    """
    database = Database(os.environ[URL])
    try:
        run(database, UUID(sys.argv[1]))
    finally:
        database.dispose()


if __name__ == "__main__":
    main()
