"""EXPORT: documents beside the rows, and the move of a finished dataset to its target.

The record and the move are one transaction.  Where PostgreSQL goes away in its commit, nothing says
whether the record is stored: the dataset stays whole in its unfinished folder, and the same call
records it where it is not, and moves it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from uuid import UUID

import msgspec
import pyarrow.parquet as pq

from app import formats
from app.domain.dataset.selection import Spec
from app.domain.source import source_text
from app.export import card
from app.export.build import Selected
from app.export.manifest import NAME, FileEntry, Manifest, spec_of
from app.export.render import schema_of, tally
from app.export.writers import LINEAGE_STEM, entry, rows_of
from app.store.dataset import exports, label_changes
from app.store.postgres.database import Connection, Database


def write_documents(root: Path, manifest: Manifest, selected: Selected) -> Manifest:
    """Write the files that the trainer needs beside the rows, the card, and the
    manifest with their hashes.
    """
    chosen = formats.find(manifest.format)
    tables = [file for file in manifest.files if file.path.startswith("data/")]
    by_split = {Path(file.path).stem.partition("-")[0]: file.path for file in tables}
    documents = chosen.documents(by_split)
    assemble = getattr(chosen, "assemble", None)
    if assemble is not None:
        documents |= assemble(row for file in tables for row in rows_of(root / file.path))
    files = [*manifest.files]
    for name, document in documents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        files.append(entry(root, root / name))
    memory: dict[str, int] = {}
    for part in selected.parts:
        for split, size in part.memory_bytes.items():
            memory[split] = memory.get(split, 0) + size
    text = card.render(
        manifest,
        schema=schema_of(chosen, credited=manifest.advantages is not None),
        memory_bytes=memory,
        problems=tally(selected.parts, "problems"),
        learns=chosen.learns,
        usage=chosen.usage,
    )
    (root / card.NAME).write_text(text, encoding="utf-8")
    files.append(entry(root, root / card.NAME))
    manifest = replace(manifest, files=tuple(files))
    (root / NAME).write_text(
        json.dumps(manifest.sealed(), indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    return manifest


def finished(root: Path, spec: Spec) -> Manifest | None:
    """Manifest of a dataset of that selection and this version that an earlier call has left whole
    in the unfinished folder; None if there is none.
    """
    try:
        body = msgspec.json.decode((root / NAME).read_bytes())
        manifest = msgspec.convert(body, Manifest)
        made_of = spec_of(manifest.spec), manifest.service_version
    except (OSError, ValueError):
        return None
    if made_of != (spec, metadata.version("kernel-assay")):
        return None
    return manifest if all(_is_whole(root, file) for file in manifest.files) else None


def publish(database: Database, root: Path, out: Path, manifest: Manifest) -> None:
    """Record the dataset, unless an earlier call has, and rename its folder into place: both or
    neither.
    """
    listed = {NAME, *(file.path for file in manifest.files)}
    for path in list(root.rglob("*")):  # plans, and remains of an interrupted call
        if path.is_file() and path.relative_to(root).as_posix() not in listed:
            path.unlink()
    try:
        with database.begin() as connection:
            if exports.get(connection, UUID(manifest.export_id)) is None:
                _record(connection, root, out, manifest)
            root.rename(out)
    except BaseException:
        if not root.exists():  # renamed, but the commit failed
            out.rename(root)
        raise


def _record(connection: Connection, root: Path, out: Path, manifest: Manifest) -> None:
    exports.add(
        connection,
        export_id=UUID(manifest.export_id),
        format=manifest.format,
        where_text=manifest.where,
        directory=source_text.printable(str(out)),
        manifest=manifest.sealed(),
        evaluation_ids=_evaluation_ids(root, manifest),
    )
    as_of = datetime.fromisoformat(manifest.snapshot["as_of"])
    label_changes.mark(connection, UUID(manifest.export_id), as_of)


def _is_whole(root: Path, file: FileEntry) -> bool:
    try:
        with (root / file.path).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def _evaluation_ids(root: Path, manifest: Manifest) -> Iterator[str]:
    """Every evaluation of the lineage once: earlier turns of a dialogue occur in many rows."""
    known: set[str] = set()
    for file in manifest.files:
        if file.path.startswith(f"{LINEAGE_STEM}-"):
            column = pq.read_table(root / file.path, columns=["evaluation_id"]).column(0)
            # an answer without code has no evaluation
            found = [one for one in column.unique().drop_null().to_pylist() if one not in known]
            known.update(found)
            yield from found
