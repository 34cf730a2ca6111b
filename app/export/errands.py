"""EXPORT: counts for the web, made by a process of their own: `python -m app.export.errands funnel|preview|diff`.

The web serves from one event loop, which selecting and rendering would stop.  Each verb reads JSON from standard input
and answers with JSON on standard output.  Datasets are made by `app.export.jobs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from app import export
from app.plugins import UnknownPluginError
from app.settings import Settings, located
from app.store.session import Database

VERBS = ("funnel", "preview", "diff")


def answer(database: Database, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer to a request, or `{"error": …}` where the request makes no sense."""
    try:
        if verb == "diff":
            return export.diff(Path(asked["before"]), Path(asked["after"]))
        spec = export.spec_of(asked["spec"])
        if verb == "funnel":
            return export.funnel(database, spec)
        return {"rows": export.preview(database, spec, asked["rows"])}
    except (ValueError, UnknownPluginError, FileNotFoundError) as error:
        return {"error": str(error)}


def main(arguments: list[str]) -> int:
    """Answer once; exit code 2 for a verb that does not exist."""
    if len(arguments) != 1 or arguments[0] not in VERBS:
        sys.stderr.write(f"expected one of {', '.join(VERBS)}, got {arguments!r}\n")
        return 2
    database = Database(located(Settings.from_env()).database_url or "")
    sys.stdout.write(json.dumps(answer(database, arguments[0], json.load(sys.stdin)), default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
