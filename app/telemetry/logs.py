"""Log lines: for people, or one JSON object each, with the ids of the job and the
device that they are about.

A line never holds a URL with its password: only error messages about servers are
logged, and they hide it.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

from app.settings import LOG_FORMATS

_PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_fields: ContextVar[dict[str, str]] = ContextVar("assay_log_fields", default={})  # noqa: B039 (replaced, never changed)


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Add these fields (`job_id=…`, `device=…`) to every line that is logged within."""
    token = _fields.set({**_fields.get(), **{name: str(value) for name, value in fields.items()}})
    try:
        yield
    finally:
        _fields.reset(token)


def configure(form: str, *, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Send every logger of this process to stderr (or `stream`) in one of
    LOG_FORMATS.  Raises ValueError.
    """
    if form not in LOG_FORMATS:
        raise ValueError(f"log format: expected one of {', '.join(LOG_FORMATS)}, got {form!r}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if form == "json" else logging.Formatter(_PLAIN))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


class _Json(logging.Formatter):
    """One object a line: time (UTC, RFC 3339), level, logger, message, the fields added by `about`
    and by the line itself (`extra={"fields": …}`), and the traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **_fields.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)
