"""Paths of the files and folders that commands make."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from app.cli.errors import FULL

_DRAFT = ".{}.unfinished"
"""Longest name of a draft beside its target."""


class OutputPath(click.Path):
    """A file or folder to make.  A path at which none can be made is refused before the command
    begins: a parent that is a file or not writable, a name too long, a device in its place.

    A full disk is no wrong path: the command tells of it.  A symbolic link stands for its target.
    """

    def __init__(self, *, folder: bool = False) -> None:
        super().__init__(path_type=Path, dir_okay=folder, writable=True)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        """The path.  Raises click.BadParameter."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            path = path.resolve() if path.is_symlink() else path
            if path.exists() and not (path.is_file() or path.is_dir()):
                self.fail(f"{path}: expected a file or a folder, got neither", param, ctx)
            _require_writable(path.absolute())
        except (OSError, RuntimeError) as error:  # RuntimeError: links that lead to each other
            self.fail(f"{path} cannot be made: {error}", param, ctx)
        return path


def _require_writable(path: Path) -> None:
    """Raise OSError unless a file can be made in the nearest folder that exists above the path."""
    above = next((folder for folder in path.parents if folder.exists()), path)
    with suppress(FileNotFoundError):
        for part in path.relative_to(above).parts:
            (above / _DRAFT.format(part)).lstat()
    try:
        tempfile.TemporaryFile(dir=above).close()
    except OSError as error:
        if error.errno not in FULL:
            raise
