"""EXPORT: counts for the web, made by a process of their own: `python -m
app.export.subprocess_entry`.

The web serves from one event loop, which selecting and rendering would stop.  The process reads a
request from standard input, a line of JSON: `{"verb": …, "asked": …}`.  It writes lines of JSON:
`{"progress": [stage, done, total]}` from time to time, at last the answer.  It may wait for its
request: the web begins it ahead, because importing takes longer than most answers.  Datasets are
made by `app.export.background`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from app import export
from app.export import row_view
from app.plugins import UnknownPluginError
from app.settings import Settings, located
from app.store.postgres.database import Database

VERBS = ("funnel", "preview", "diff", "rows")
BEAT_S = 0.3
"""Between two lines of progress within a stage."""
PATIENCE_S = 20.0
"""Seconds after which a preview shows the rows that it has."""


class Reporter:
    """Writes progress to standard output, not too often."""

    def __init__(self) -> None:
        self._stage = ""
        self._next_s = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take progress of a stage: units done and in all (0: not known)."""
        now = time.monotonic()
        if stage == self._stage and now < self._next_s:
            return
        self._stage, self._next_s = stage, now + BEAT_S
        sys.stdout.write(json.dumps({"progress": [stage, done, total]}) + "\n")
        sys.stdout.flush()


def answer(database: Database, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer to a request, or `{"error": …}` where the request makes no sense."""
    try:
        if verb == "diff":
            return export.diff(Path(asked["before"]), Path(asked["after"]))
        if verb == "rows":
            page = row_view.Asked(**asked["page"])
            return row_view.view(Path(asked["file"]), page, first=asked["first"])
        spec = export.spec_of(asked["spec"])
        if verb == "funnel":
            return export.funnel(database, spec, progress=Reporter())
        found = export.preview(
            database, spec, asked["rows"], progress=Reporter(), patience_s=PATIENCE_S
        )
        return {"rows": found.rows, "is_whole": found.is_whole, "patience_s": PATIENCE_S}
    except (ValueError, UnknownPluginError, FileNotFoundError) as error:
        return {"error": str(error)}


def main() -> int:
    """Answer one request; none where the process that would send it has ended."""
    line = sys.stdin.readline()
    if not line:
        return 0
    request = json.loads(line)
    if request["verb"] not in VERBS:
        sys.stderr.write(f"verb: expected one of {', '.join(VERBS)}, got {request['verb']!r}\n")
        return 2
    database = Database(located(Settings.from_env()).database_url or "")
    found = answer(database, request["verb"], request["asked"])
    sys.stdout.write(json.dumps(found, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
