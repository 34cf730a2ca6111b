"""`./dev` hands over to the command of its own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_module_path_of_the_caller_does_not_reach_the_command(tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    commands = checkout / ".venv" / "bin"
    commands.mkdir(parents=True)
    shutil.copy(ROOT / "dev", checkout)
    for name in ("requirements.lock", "pyproject.toml"):
        (checkout / name).touch()
    (commands / "assay").write_text('#!/bin/sh\necho "$* [$PYTHONPATH$PYTHONHOME]"\n')
    (commands / "assay").chmod(0o755)
    stamp = 'source ./dev help >/dev/null; wanted >"$stamp"'
    subprocess.run(["bash", "-c", stamp], cwd=checkout, check=True)
    told = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONHOME": str(tmp_path)}
    ran = subprocess.run(
        [checkout / "dev", "status", "--json"], env=told, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "status --json []\n"
