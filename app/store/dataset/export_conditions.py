"""STORE: the stages of a selection that the database decides, as conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain import filter_fields
from app.domain import filter_language as filters
from app.domain.dataset.selection import ALL_DEVICES, COUNTER, Kind, Spec
from app.domain.verdict import Label
from app.store.dataset.export_sources import BYTES, PROMPT_BYTES, turn_rows
from app.store.evaluation import evaluation_rows, hacked_sources
from app.store.evaluation.hacked_sources import Solution
from app.store.filter import filter_sql
from app.store.tables import evaluations, turn_features, turns, verdicts

JUDGED, EXTRACTION, TOKENS = "judged", "extraction", "tokens"
"""Names of stages that are read here in a way of their own."""

CPU = "cpu"
"""The device class without a GPU: its times are of an interpreter."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A stage that the database decides."""

    name: str
    keeps: sa.ColumnElement[bool]
    rule: str
    """Text for people."""
    keeps_codeless: sa.ColumnElement[bool] | None = None
    """Condition on an answer without code; None if the stage keeps all of them."""


def device_of(
    connection: sa.Connection,
    spec: Spec,
    as_of: datetime,
    only: sa.ColumnElement[bool] | None = None,
) -> str | None:
    """The device class of a selection; None for all.

    By default the GPU class with the most valid evaluations among those that the filter keeps, in a
    tie the first by name; `cpu` only if no GPU has any.  `only` narrows the counted evaluations.
    """
    expression = filters.parse(spec.where)
    if spec.device is not None or "gpu" in filters.names(expression):
        return None if spec.device == ALL_DEVICES else spec.device
    kept = sa.and_(
        evaluations.c.valid, evaluations.c.created_at < as_of, sa.true() if only is None else only
    )
    named = filters.names(expression)
    source: sa.FromClause = evaluations
    counted = sa.func.count()
    if named:
        source, kept = evaluation_rows.JOINED, sa.and_(kept, filter_sql.indexed(expression))
        counted = sa.func.count(evaluations.c.evaluation_id.distinct())
    query = sa.select(evaluations.c.device_class, counted).select_from(source).where(kept)
    found = connection.execute(query.group_by(evaluations.c.device_class)).all()
    return usual_device(dict(found))


def usual_device(counts: Mapping[str, int]) -> str:
    """Device class with the most evaluations, in a tie the first by name; `cpu` only
    if no GPU has any.
    """
    gpus = {name: count for name, count in counts.items() if name != CPU}
    return min(gpus, key=lambda name: (-gpus[name], name)) if gpus else CPU


def is_only_device(connection: sa.Connection, device: str) -> bool:
    """True if no evaluation was measured on a device of another class."""
    other = sa.select(sa.literal(1)).where(evaluations.c.device_class != device).limit(1)
    return connection.execute(other).first() is None


def conditions(
    spec: Spec,
    kind: Kind,
    *,
    policy: str,
    detectors: dict[str, int],
    device: str | None,
    hacked: Sequence[Solution] = (),
    codeless_on_device: sa.ColumnElement[bool] | None = None,
) -> list[Condition]:
    """The stages that the database decides, in order, for a kind of row.

    `device`: result of `device_of`; `hacked`: result of `hacked_sources.found`;
    `codeless_on_device`: condition that an answer without code belongs to that device, None if all
    do.
    """
    expression = filters.parse(spec.where)
    named = filters.names(expression)
    measured = evaluations.c
    stages = [_where(expression)]
    refused = None if kind.takes_all else sa.false()

    def stage(name: str, keeps: sa.ColumnElement[bool], rule: str) -> None:
        refuses = name == (JUDGED if named & filter_fields.ON_OUTCOME else "correct")
        stages.append(
            Condition(
                name=name, keeps=keeps, rule=rule, keeps_codeless=refused if refuses else None
            )
        )

    stage(
        "valid", measured.valid, "infrastructure faults and broken problems are never training data"
    )
    if device is not None:
        rule = f"measured on {device}: the selection is of one device class"
        kept = measured.device_class == device
        stages.append(
            Condition(name="device", keeps=kept, rule=rule, keeps_codeless=codeless_on_device)
        )
    fresh = sa.and_(
        verdicts.c.policy == policy,
        verdicts.c.detectors == sa.cast(detectors, verdicts.c.detectors.type),
    )
    rule = f"the verdict is of policy {policy} and of this version's {len(detectors)} detectors"
    stage(JUDGED, fresh, rule)
    if kind.takes_all:
        return stages + _teaching(spec, kind)
    worse = "; worse answers of rows are exempt" if kind.uses_failures else ""
    if not named & filter_fields.ON_OUTCOME:
        stage("correct", measured.correct, f"every verified call was right{worse}")
    if "verdict" not in named:
        clean = evaluation_rows.LABEL == Label.CLEAN
        if hacked:
            clean = sa.and_(clean, hacked_sources.is_none_of(hacked))
        rule = "neither suspect nor hack, nor is another evaluation of the source a hack"
        stage("clean", clean, f"{rule}{worse}")
    return stages + _figures(spec) + _teaching(spec, kind)


def _where(expression: filters.Expression) -> Condition:
    """The stage of the filter."""
    return Condition(
        name="where",
        keeps=filter_sql.compile(expression),
        rule=filters.unparse(expression) or "everything",
        keeps_codeless=filter_sql.compile(filters.without(expression, filter_fields.ON_DEVICE)),
    )


def _figures(spec: Spec) -> list[Condition]:
    """Stages by the evaluation's figures, and by people's reviews of high speedups."""
    measured = evaluations.c
    stages: list[Condition] = []

    def stage(name: str, keeps: sa.ColumnElement[bool], rule: str) -> None:
        stages.append(Condition(name=name, keeps=keeps, rule=rule))

    if spec.reviewed_above is not None:
        looked_at = sa.or_(
            measured.human_verdict.is_not(None), measured.speedup <= spec.reviewed_above
        )
        stage("reviewed", looked_at, f"above {spec.reviewed_above:g}× a person has looked")
    credited = evaluation_rows.COLUMNS
    if spec.min_speedup is not None:
        low = credited["speedup_ci_low"] >= spec.min_speedup
        stage("speed", low, f"low end of the speedup's interval at least {spec.min_speedup:g}")
    if spec.max_speedup is not None:
        stage(
            "bound",
            measured.speedup <= spec.max_speedup,
            f"measured speedup at most {spec.max_speedup:g}",
        )
    if spec.min_coverage is not None:
        covered = measured.coverage_time >= spec.min_coverage
        stage(
            "coverage", covered, f"own kernels take at least {spec.min_coverage:.0%} of kernel time"
        )
    return stages


def _teaching(spec: Spec, kind: Kind) -> list[Condition]:
    found = []
    if kind.shows_answer and spec.extraction and kind is not Kind.REWARDS:
        rule = (
            "the answer ends in one whole code block, with one model: the evaluated source, in a"
            " language that the prompt asks for"
        )
        found.append(Condition(name=EXTRACTION, keeps=_EXTRACTED, rule=rule))
    if (
        spec.max_tokens is not None and spec.tokenizer == COUNTER
    ):  # a vocabulary counts where rows are rendered
        rule = f"at most {spec.max_tokens} tokens, counted by {spec.tokenizer}"
        sizes = (
            (BYTES, turn_rows.c.said_bytes)
            if kind.shows_answer
            else (PROMPT_BYTES, turn_rows.c.asked_bytes)
        )
        short, codeless_short = (spec.max_tokens >= (size + 3) // 4 for size in sizes)
        found.append(Condition(name=TOKENS, keeps=short, rule=rule, keeps_codeless=codeless_short))
    return found


_EXTRACTED = sa.or_(turns.c.turn_id.is_(None), turn_features.c.extraction == "ok")
