"""EXPORT: the settings of a dataset in the making, and the moment of the database that it shows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path

import msgspec

from app import formats
from app.domain.dataset.inapplicable_settings import inapplicable
from app.domain.dataset.selection import Kind, Source, Spec
from app.export import text_facts
from app.export.working_folder import ExportError
from app.formats import PARQUET
from app.store.dataset import export_matching
from app.store.postgres.database import Database


@dataclass(frozen=True, kw_only=True)
class Past:
    """Moment and judges of an earlier dataset, which a reproduction reads."""

    as_of: datetime
    policy: str
    detectors: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Settings of an unfinished dataset; a restart continues with them."""

    spec: Spec
    kind: Kind
    version: str
    as_of: datetime
    xmin: str
    policy: str
    """`name@version` of the policy that verdicts are of."""
    detectors: dict[str, int]
    """Detector → version that verdicts are of."""
    replay: bool = False
    """True where verdicts and reviews are read as of `as_of`, because they may have changed."""


def kind_of(spec: Spec) -> Kind:
    """Kind of the rows.  Raises UnknownPluginError for the format, ExportError for a
    kind that it cannot hold.
    """
    known = formats.find(spec.format).kinds
    kind = spec.kind or known[0]
    if kind not in known:
        raise ExportError(
            f"format {spec.format}: expected a kind of {', '.join(known)}, got {kind}"
        )
    if spec.source is Source.PROBLEMS and kind is not Kind.RL_PROMPTS:
        raise ExportError(
            f"source problems: expected a format of {Kind.RL_PROMPTS}, got {spec.format} of {kind}"
        )
    if spec.advantages is not None and formats.find(spec.format).container != PARQUET:
        raise ExportError(
            f"advantages: expected a format of Parquet columns, got {spec.format} of JSON lines"
        )
    if useless := inapplicable(spec, kind):
        given = ", ".join(f"{name} = {getattr(spec, name)}" for name in useless)
        raise ExportError(
            f"kind {kind}: expected no setting that does not apply to such rows, got {given}"
        )
    return kind


def begin(database: Database, root: Path, spec: Spec, past: Past | None = None) -> Draft:
    """The draft in the folder if its selection and version are the same; else a new
    draft as of now, or of `past`.
    """
    path = root / "draft.json"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Draft)
    except (OSError, msgspec.DecodeError):
        found = None
    if (
        found is not None
        and (found.spec, found.version) == (spec, metadata.version("kernel-assay"))
        and (past is None or past.as_of == found.as_of)
    ):
        return replace(found, replay=True)
    for old in root.iterdir():
        if old.name != "lock":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    draft = now(database, spec)
    if past is not None:
        draft = replace(draft, **vars(past), replay=True)
    path.write_bytes(msgspec.json.encode(draft))
    return draft


def now(database: Database, spec: Spec) -> Draft:
    """The draft of a selection as of now; transactions that begin later see all of it."""
    found = export_matching.snapshot(database)
    return Draft(
        spec=spec,
        kind=kind_of(spec),
        version=metadata.version("kernel-assay"),
        as_of=found.as_of,
        xmin=found.xmin,
        policy=text_facts.policy_of(spec).key,
        detectors=text_facts.versions(),
    )
