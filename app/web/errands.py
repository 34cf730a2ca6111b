"""BROWSE: counts that the web delegates to another process, because its event loop must not stop
(`app.export.errands`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from werkzeug.exceptions import BadRequest, GatewayTimeout

from app.settings import Settings

MODULE = "app.export.errands"
PATIENCE_S = 120.0
"""Seconds for which a page waits for an answer."""


class ErrandError(RuntimeError):
    """The process ended without an answer; its last words are the message."""


def ask(settings: Settings, errand: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer of an errand.  Raises BadRequest where what was asked for makes no sense, GatewayTimeout where it
    takes too long, ErrandError where it fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULE, errand],
            input=json.dumps(asked, default=str),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env=_environment(settings),
        )
    except subprocess.TimeoutExpired as error:
        raise GatewayTimeout(f"this takes longer than {PATIENCE_S:.0f} s; make the dataset instead") from error
    if done.returncode:
        raise ErrandError(f"{errand} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise BadRequest(str(found["error"]))
    return found


def _environment(settings: Settings) -> dict[str, str]:
    """Environment of this process, with its settings."""
    return {**os.environ, **settings.to_env()}
