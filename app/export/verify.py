"""EXPORT: prove that a dataset agrees with its manifest, or name every difference."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from app.domain.dataset.split import SPLITS
from app.export import manifest as manifests
from app.export.manifest import FileEntry, canonical
from app.export.writers import LINEAGE_STEM, UNREADABLE, rows_of

_SHOWN = 5
"""Changed rows named per file; the rest are counted."""


def verify(directory: Path) -> list[str]:
    """Every way in which the dataset differs from its manifest, for people; empty if it is whole.

    Reads every file, and follows no link: bytes, sizes, content of each row, number and order of
    rows, files missing and files too many.

    Not proven: that the numbers are true, or that the manifest is the one that was written.  A
    manifest edited by hand breaks its own hash and is reported, but rewriting the files, the
    lineage, the manifest *and* all hashes gives another dataset that is whole in itself; only the
    copy in the database (`exports`) or a hash kept elsewhere tells the two apart.
    """
    if directory.is_symlink():
        return [f"{directory}: expected a folder, got a link: its target may change"]
    links = list(_links(directory))
    if links:
        return links
    try:
        body = _manifest(directory)
    except ValueError as error:
        return [str(error)]
    found: list[str] = []
    if body["manifest_sha256"] != manifests.seal(body):
        found.append(f"{manifests.NAME}: was changed: its own hash does not fit")
    files = {file["path"]: file for file in body["files"]}
    found += _strangers(directory, files)
    present = {path: file for path, file in files.items() if (directory / path).is_file()}
    for path, file in present.items():
        found += _bytes_differ(directory / path, file)
    found += _lineage_differs(directory, present, body)
    if manifests.content_of(FileEntry(**file) for file in body["files"]) != body["content_sha256"]:
        found.append(
            f"{manifests.NAME}: content_sha256 is not that of the content hashes of the tables"
        )
    for split in SPLITS:
        found += _rows_differ(directory, files, split)
    return found


def _manifest(directory: Path) -> dict[str, Any]:
    """The manifest, with the parts that are needed here; ValueError names its defect."""
    path = directory / manifests.NAME
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{manifests.NAME}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{manifests.NAME}: expected JSON: {error}") from error
    if not isinstance(body, dict) or body.get("schema_version") != manifests.SCHEMA_VERSION:
        raise ValueError(
            f"{manifests.NAME}: expected a manifest of schema version {manifests.SCHEMA_VERSION}"
        )
    needed = {
        "manifest_sha256": str,
        "content_sha256": str,
        "rows": int,
        "funnel": list,
        "files": list,
    }
    for name, kind in needed.items():
        if not isinstance(body.get(name), kind):
            raise ValueError(
                f"{manifests.NAME}: expected {name} to be a {kind.__name__}, got {body.get(name)!r}"
            )
    stages = body["funnel"]
    if not stages or not all(
        isinstance(stage, dict) and isinstance(stage.get("rows"), int) for stage in stages
    ):
        raise ValueError(
            f"{manifests.NAME}: expected funnel to be stages with rows, got {stages!r}"
        )
    for file in body["files"]:
        if not _is_entry(file):
            raise ValueError(
                f"{manifests.NAME}: expected the entry of a file inside the dataset, got {file!r}"
            )
    return body


def _is_entry(file: object) -> bool:
    kinds = {
        "path": str,
        "bytes": int,
        "sha256": str,
        "rows": int | None,
        "content_sha256": str | None,
    }
    if not isinstance(file, dict) or not all(
        isinstance(file.get(name), kind) for name, kind in kinds.items()
    ):
        return False
    path = Path(file["path"])
    return not path.is_absolute() and ".." not in path.parts and file.keys() == kinds.keys()


def _links(directory: Path) -> Iterator[str]:
    """Links anywhere in the dataset.  None is followed: its target lies outside the
    manifest's hashes.
    """
    for folder, folders, files in os.walk(directory, followlinks=False):
        for name in sorted((*folders, *files)):
            found = Path(folder, name)
            if found.is_symlink():
                yield (
                    f"{found.relative_to(directory).as_posix()}: is a link; datasets hold files and"
                    " folders"
                )


def _strangers(directory: Path, files: dict[str, Any]) -> Iterator[str]:
    """Files that are missing, and files that the manifest does not list."""
    for path in files:
        if not (directory / path).is_file():
            yield f"{path}: missing"
    listed = {*files, manifests.NAME}
    for found in sorted(directory.rglob("*")):
        name = found.relative_to(directory).as_posix()
        if not found.is_dir() and name not in listed:
            yield f"{name}: not in the manifest"
        if found.is_dir() and not any(found.iterdir()):
            yield f"{name}: an empty folder, not in the manifest"


def _bytes_differ(path: Path, file: dict[str, Any]) -> Iterator[str]:
    size = path.stat().st_size
    if size != file["bytes"]:
        yield f"{file['path']}: expected {file['bytes']} bytes, got {size}"
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != file["sha256"]:
        yield f"{file['path']}: expected sha256 {file['sha256']}, got {digest}"


def _lineage_differs(
    directory: Path, present: dict[str, Any], body: dict[str, Any]
) -> Iterator[str]:
    """Number and content of the rows that the lineage names."""
    count = 0
    for path in _tables(present, LINEAGE_STEM):
        content = hashlib.sha256()
        try:
            for line in rows_of(directory / path):
                content.update(hashlib.sha256(canonical(line)).hexdigest().encode())
                count += line["role"] == "answer"
        except UNREADABLE as error:
            yield f"{path}: cannot be read: {error}"
        if content.hexdigest() != present[path]["content_sha256"]:
            yield f"{path}: the content of its rows was changed"
    if not count == body["rows"] == body["funnel"][-1]["rows"]:
        yield (
            f"{LINEAGE_STEM}: expected {body['rows']} rows ({body['funnel'][-1]} in the funnel),"
            f" got {count}"
        )


def _rows_differ(directory: Path, files: dict[str, Any], split: str) -> Iterator[str]:
    """Every row of a split against its line in the lineage."""
    lines = _lines(directory, files, split)
    for path in _tables(files, f"data/{split}"):
        expected = islice(lines, files[path]["rows"])
        if (directory / path).is_file():
            yield from _file_differs(directory, files[path], expected)
        else:
            deque(expected, maxlen=0)  # go on behind its rows
    for line in lines:
        yield (
            f"{LINEAGE_STEM}: names a row that no file of {split} holds: evaluation"
            f" {line['evaluation_id']}"
        )


def _file_differs(
    directory: Path, file: dict[str, Any], expected: Iterator[dict[str, Any]]
) -> Iterator[str]:
    content, rows, changed = hashlib.sha256(), 0, 0
    try:
        for row in rows_of(directory / file["path"]):
            row_sha256 = hashlib.sha256(canonical(row)).hexdigest()
            content.update(row_sha256.encode())
            line = next(expected, None)
            if line is None or line["row_sha256"] != row_sha256:
                changed += 1
                if changed <= _SHOWN:
                    what = f"evaluation {line['evaluation_id']}" if line else "not in the lineage"
                    yield f"{file['path']}: row {rows} ({what}) was changed"
            rows += 1
    except UNREADABLE as error:
        yield f"{file['path']}: cannot be read after {rows} rows: {error}"
    deque(expected, maxlen=0)
    if changed > _SHOWN:
        yield f"{file['path']}: {changed - _SHOWN} more rows were changed"
    if rows != file["rows"]:
        yield f"{file['path']}: expected {file['rows']} rows, got {rows}"
    if content.hexdigest() != file["content_sha256"]:
        yield (
            f"{file['path']}: expected rows of sha256 {file['content_sha256']}, got"
            f" {content.hexdigest()}"
        )


def _lines(directory: Path, files: dict[str, Any], split: str) -> Iterator[dict[str, Any]]:
    """The lineage of one split, as far as it can be read (`_lineage_differs` has
    said if it cannot).
    """
    for path in _tables(files, LINEAGE_STEM):
        with suppress(*UNREADABLE):
            yield from (
                line
                for line in rows_of(directory / path)
                if line["split"] == split and line["role"] == "answer"
            )


def _tables(files: dict[str, Any], stem: str) -> list[str]:
    """Tables of that name in order: `<stem>-00000.parquet` …, or `<stem>.jsonl`."""
    named = (f"{stem}-", f"{stem}.")
    return sorted(
        path
        for path in files
        if path.startswith(named) and files[path]["content_sha256"] is not None
    )
