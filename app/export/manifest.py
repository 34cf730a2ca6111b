"""EXPORT: the manifest as a record, written and read: content of a dataset, attempts dropped at
each stage, and the hashes that prove it.  `manifest_contents` fills one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import msgspec

from app.domain.dataset.selection import Spec

NAME = "manifest.json"
SCHEMA_VERSION = 2

METRICS = {
    "speedup": "reference_us / candidate_us; null for hacks",
    "speedup_ci": (
        "95 % confidence interval of the speedup, by what the fastest third of each side's blocks"
        " span"
    ),
    "device_speedup, device_speedup_ci": (
        "the same by the device's own time, from CUDA graphs; null where it was not measured"
    ),
    "reference_us, candidate_us": (
        "microseconds per call on the referee's clock, mean of the fastest third of blocks"
    ),
    "coverage_time": "share of kernel time in kernels that the candidate brought",
    "correct": "every verified call, timed ones included, agreed with the fp64 reference",
    "pass_rate": (
        "correct and clean attempts over all attempts of a problem in one language: first answers"
        " that were evaluated and judged, and first answers without code; later turns are none"
    ),
    "turn": "place of the answer in its dialogue, from 0; null without a dialogue",
    "measured_speedup": (
        "reference_us / candidate_us of every timed answer, also of hacks: never a reward"
    ),
    "reward_*": (
        "reward of the turn under that name (app.domain.reward); 0 for hacks and wrong answers,"
        " unless it has penalties"
    ),
    "kevin_score": "0.3·correct + speedup of the turn",
    "kevin_return": (
        "discounted sum of 0.3·correct + speedup over this turn and those after it (arXiv"
        " 2507.11948)"
    ),
    "return_*": (
        "discounted sum of the reward over this turn and those after it; discount 1 unless `gamma`"
        " says"
    ),
}
"""Definitions of the metrics; `baseline` names how the reference was run."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of the funnel."""

    stage: str
    rows: int
    """Attempts left after the stage; for the last one, `rows`, rows of the dataset."""
    rule: str
    """Attempts that the stage keeps, as text."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file of the dataset."""

    path: str
    """Relative, with `/`."""
    bytes: int
    sha256: str
    """Hash of the file's bytes."""
    rows: int | None = None
    """Rows of the file; None, like `content_sha256`, for a file that is no table."""
    content_sha256: str | None = None
    """Hash of the hashes of the rows (JSON, sorted keys): independent of the
    writer's version and of compression.
    """


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything needed to check a dataset, and to make it again from the same database."""

    export_id: str
    created_at: str
    service_version: str
    format: str
    kind: str
    where: str
    """The filter as given."""
    spec: dict[str, Any]
    """The whole selection as given (app.domain.dataset.selection.Spec)."""
    snapshot: dict[str, str]
    """Moment of the export: `as_of`, everything older than this and nothing else; and `device`,
    the device class of the evaluations taken, or `all`.
    """
    stages: tuple[str, ...]
    """Every stage that was asked for, in order."""
    funnel: tuple[Stage, ...]
    rows: int
    problems: int
    families: int
    split: dict[str, int]
    """Rows of each split; `spec` says by which seed and fraction families were held out."""
    content_sha256: str
    """Hash of the content hashes of all tables: the same for every export of one snapshot."""
    dropped_in_rendering: dict[str, int]
    benchmarks: dict[str, str]
    """Problem of this database that belongs to a known benchmark → rule, and benchmark problem;
    held out if `stages` has `benchmarks`.
    """
    contaminated: dict[str, str]
    """Problem → reason for its exclusion: rule, similarity, and the problem it resembles."""
    policies: tuple[str, ...]
    detectors: dict[str, int]
    """Detector → version, behind the verdicts of the exported rows."""
    protocols: tuple[str, ...]
    hardware: tuple[dict[str, Any], ...]
    source_sets: dict[str, int]
    models: dict[str, int]
    licences: dict[str, int]
    """`problem licence / model licence` → rows; `unknown` where not stated."""
    prompt_sources: dict[str, int]
    sanitized_rows: int
    writer: dict[str, Any]
    files: tuple[FileEntry, ...]
    advantages: dict[str, Any] | None = None
    """Method, reward, baseline and turns outside groups (app.export.turn_credits),
    if rows have advantages.
    """
    mismatch: dict[str, Any] | None = None
    """Mismatch rejection of answers (app.export.mismatch_rejection.Ratios.summary),
    if requested.
    """
    schema_version: int = SCHEMA_VERSION

    def sealed(self) -> dict[str, Any]:
        """Manifest as JSON, with a hash of itself."""
        body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(asdict(self))) | {
            "metric_definitions": METRICS
        }
        return body | {"manifest_sha256": seal(body)}


def seal(body: dict[str, Any]) -> str:
    """Hash of a manifest without its own hash."""
    own = {key: value for key, value in body.items() if key != "manifest_sha256"}
    return hashlib.sha256(canonical(own)).hexdigest()


def canonical(value: object) -> bytes:
    """JSON in a unique form: sorted keys, no blanks, UTF-8."""
    return _ENCODER.encode(value)


_ENCODER = msgspec.json.Encoder(order="sorted")


def spec_of(body: dict[str, Any]) -> Spec:
    """The selection in a manifest or in any JSON.  Raises ValueError with the field
    that does not fit.
    """
    if unknown := sorted(_unknown(body, Spec)):
        raise ValueError(f"spec: unknown {', '.join(unknown)}")
    try:
        return msgspec.convert(body, Spec)
    except msgspec.ValidationError as error:
        raise ValueError(f"spec: {error}") from error


def _unknown(body: Mapping[str, Any], kind: type, where: str = "") -> Iterator[str]:
    """Keys that no field has, including those of nested objects."""
    known, types = {each.name for each in fields(kind)}, get_type_hints(kind)
    for name, value in body.items():
        if name not in known:
            yield f"{where}{name}"
        elif isinstance(value, dict):
            for each in (types[name], *get_args(types[name])):
                if is_dataclass(each) and isinstance(each, type):
                    yield from _unknown(value, each, f"{where}{name}.")


def spec_json(spec: Spec) -> dict[str, Any]:
    """A selection as JSON, with every field: defaults are decisions as well."""
    return {each.name: msgspec.to_builtins(getattr(spec, each.name)) for each in fields(spec)}


def content_of(files: Iterable[FileEntry]) -> str:
    """See `Manifest.content_sha256`."""
    lines = sorted(
        f"{file.path} {file.content_sha256}\n" for file in files if file.content_sha256 is not None
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()
