"""Checks of a worker's main process before it serves."""

from __future__ import annotations

import logging

from app.store.postgres import schema_revisions

INSUFFICIENT = 3
"""Exit code of a worker that does not serve: infrastructure, as for every command."""

_log = logging.getLogger(__name__)


def require_own_tables(database_url: str) -> None:
    """Exit unless the tables are of this version: results that they do not take would be lost, and
    paid calls with them.
    """
    try:
        schema_revisions.await_own(database_url)
    except schema_revisions.OtherVersionError as error:
        _log.critical("%s", error)
        raise SystemExit(INSUFFICIENT) from error
