"""The command line, in this process and in processes of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from app import cli
from app.settings import Settings

ASSAY = str(Path(sys.executable).with_name("assay"))


def environment(settings: Settings) -> dict[str, str]:
    """Environment of a process with these settings and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    return {**kept, **settings.to_env()}


def assay(settings: Settings, *arguments: str, text: str | None = None, **env: str) -> Result:
    """Run a command in this process; `text`: its standard input."""
    return CliRunner(env={**settings.to_env(), **env}).invoke(cli.main, list(arguments), input=text)
