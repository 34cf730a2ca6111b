"""BROWSE: starting, stopping and resuming datasets, with the audit's record of it: a page and the
API do it alike.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from app.domain.dataset.selection import Spec
from app.export import background
from app.store.postgres.database import Connection
from app.store.user import audit
from app.web import request_context
from app.web.identity import current_user


def start(spec: Spec, told: dict[str, Any]) -> UUID:
    """Have the dataset made; the job's id.  `told`: the selection as JSON, for the audit.  Raises
    the errors of `background.start`.
    """
    folder = request_context.settings().state_dir / background.FOLDER
    note = _note("export.add", {"spec": told})
    return background.start(request_context.database(), spec, folder, note)


def cancel(export_job_id: UUID) -> bool:
    """Stop it; False if it has ended."""
    return background.cancel(request_context.database(), export_job_id, _note("export.cancel"))


def resume(export_job_id: UUID) -> None:
    """Go on with it after the loss of its process."""
    background.resume(request_context.database(), export_job_id, _note("export.resume"))


def _note(action: str, details: dict[str, Any] | None = None) -> background.Note:
    user = current_user()

    def note(connection: Connection, export_job_id: UUID) -> None:
        audit.record(connection, user, action, f"export job {export_job_id}", details)

    return note
