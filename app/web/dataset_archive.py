"""BROWSE: the files of a dataset as one archive, written while it is sent."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from werkzeug.exceptions import Gone

from app.store.dataset import exports

PIECE_BYTES = 1 << 18
"""Bytes of a file read at once."""


def tar(folder: Path, names: list[str], top: str) -> Iterator[bytes]:
    """A tar archive in pieces: a header, the file, and blanks up to the next block."""
    for name in dict.fromkeys(names):
        path = folder / name
        if not path.is_file():
            continue
        entry = tarfile.TarInfo(f"{top}/{name}")
        entry.size, entry.mtime = path.stat().st_size, int(path.stat().st_mtime)
        yield entry.tobuf(tarfile.PAX_FORMAT)
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
        yield bytes(-entry.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def present(found: exports.Export) -> Path:
    """The folder of a dataset.  Raises Gone where it is not on this machine."""
    folder = Path(found.directory)
    if not folder.is_dir():
        raise Gone(
            f"The folder {found.directory} is not on this machine any more; `assay reproduce` makes"
            " it again."
        )
    return folder
