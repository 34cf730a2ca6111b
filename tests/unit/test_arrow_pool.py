"""Processes that make datasets use the memory pool of Arrow that gives memory back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from app.settings import ARROW_POOL


@pytest.mark.skipif(
    sys.platform != "linux", reason="Arrow's packages for other systems have other pools"
)
def test_the_command_chooses_the_pool_before_arrow_is_loaded() -> None:
    told = "import app.cli.export, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    name, value = ARROW_POOL
    environment = {key: own for key, own in os.environ.items() if key != name}
    for given, expected in (({}, value), ({name: "system"}, "system")):
        found = subprocess.run(
            [sys.executable, "-c", told],
            env=environment | given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.split() == [expected]
        assert found.stderr == ""
