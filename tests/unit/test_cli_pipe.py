"""Commands whose output is read no further, as by `| head`: no error is shown."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import errors

ASSAY = str(Path(sys.executable).with_name("assay"))


@pytest.mark.parametrize("arguments", [["export", "--fields"], ["eval", "--help"]])
def test_a_reader_that_ends_is_no_failure_of_the_infrastructure(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [ASSAY, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (errors.UNREAD, "")


def test_a_broken_pipe_elsewhere_is_a_fault() -> None:
    error = BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert not errors.is_unread(error)
    assert errors.translate(error).exit_code == errors.INFRASTRUCTURE
