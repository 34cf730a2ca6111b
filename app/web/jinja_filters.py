"""BROWSE: Jinja filters, and the signs and tones of every status, verdict and state."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import flask
from markupsafe import Markup

from app.domain.filter_language import Compare, unparse
from app.domain.metrics import Share
from app.web import (
    evaluation_view,
    explained_findings,
    finding_lines,
    formatting,
    rendered_markdown,
    safe_text,
    stored_values,
    vocabulary,
)

SIGNS = {
    # evaluation status
    "passed": ("good", "check"),
    "incorrect": ("bad", "unequal"),
    "compile_error": ("warn", "brackets"),
    "runtime_error": ("warn", "bolt"),
    "timeout": ("warn", "clock"),
    "out_of_memory": ("warn", "memory"),
    "crashed": ("bad", "cross"),
    "invalid": ("", "void"),
    # verdict
    "clean": ("good", "shield"),
    "suspect": ("warn", "question"),
    "hack": ("bad", "flag"),
    # a finding that weighs nothing
    "info": ("calm", "info"),
    # further labels of a person
    "leak": ("bad", "leak"),
    "bug": ("warn", "warning"),
    "unsure": ("", "question"),
    "withdrawn": ("", "void"),
    # job state
    "queued": ("", "clock"),
    "running": ("calm", "play"),
    "finished": ("good", "check"),
    "failed": ("bad", "cross"),
    "cancelled": ("", "void"),
    # device state
    "online": ("good", "dot"),
    "offline": ("", "ring"),
    "draining": ("calm", "pause"),
    "quarantined": ("bad", "warning"),
    "silent": ("warn", "question"),
    # workers of an endpoint
    "no key": ("warn", "warning"),
    # a dataset
    "fresh": ("good", "check"),
    "stale": ("warn", "warning"),
    "interrupted": ("warn", "question"),
    # a collection, its rollouts, attempts and calls
    "paused": ("calm", "pause"),
    "stopped": ("", "void"),
    "ready": ("", "clock"),
    "calling": ("calm", "play"),
    "evaluating": ("calm", "play"),
    "done": ("good", "check"),
    "sent": ("calm", "play"),
    "answered": ("good", "check"),
    "lost": ("warn", "question"),
    "endpoint_error": ("warn", "warning"),
    "evaluator_error": ("warn", "warning"),
    "context_overflow": ("warn", "brackets"),
    "content_filter": ("warn", "flag"),
    "budget": ("", "void"),
    # a check, an ahead-of-time compilation, a turn
    "ok": ("good", "check"),
    "wrong": ("bad", "cross"),
    "not_attempted": ("", "void"),
    "no code": ("", "void"),
    "no_code": ("", "void"),
    # a problem against itself
    "accused": ("bad", "warning"),
    "blamed": ("bad", "cross"),
    "our fault": ("warn", "question"),
}
"""Value → tone (a CSS class) and icon (a symbol in static/icons.svg)."""


def finalize(value: object) -> object:
    """Every string a template prints: hidden characters made visible.  Escaping
    follows; markup stays as it is.
    """
    return safe_text.visible(value) if type(value) is str else value


def sign(value: str) -> tuple[str, str]:
    """Tone and icon of a value."""
    return SIGNS[str(value)]


def words(value: object) -> str:
    """`compile_error` → `compile error`."""
    return str(value).replace("_", " ")


def shortened(value: object) -> str:
    """The same text with the first 12 digits of each content hash."""
    return _HASH.sub(r"\1…", str(value))


_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")


def fingerprint(value: dict[str, Any]) -> str:
    """Properties that tell one device from another, on one line; all are in every
    evaluation's environment.
    """
    versions = [
        f"{words(name)} {value[name]}"
        for name in ("torch", "triton", "python", "driver", "cuda")
        if value.get(name)
    ]
    slots = value.get("slots")
    missing = value.get("sandbox_missing")
    return " · ".join(
        [
            *([str(value["device_name"])] if value.get("device_name") else []),
            *versions,
            *([f"{slots} slot{'s' * (slots != 1)}"] if slots else []),
            *([f"sandbox without {', '.join(missing)}"] if missing else []),
        ]
    )


def conditions(values: dict[str, Any]) -> str:
    """A filter of evaluations that meets every equality: `run = a and verdict =
    hack`; without those of no value.
    """
    equalities = [
        Compare(field=field, operator="=", value=value)
        for field, value in values.items()
        if value not in (None, "")
    ]
    return " and ".join(unparse(each) for each in equalities)


def clock(moment: datetime) -> str:
    """Hours and minutes in UTC."""
    return moment.astimezone(UTC).strftime("%H:%M")


def moment(text: str) -> str:
    """An ISO 8601 moment as the exact time in UTC."""
    return formatting.utc(datetime.fromisoformat(text))


def since(moment: datetime) -> str:
    """Duration since a moment."""
    return formatting.span(datetime.now(UTC) - moment)


def share_ends(share: Share) -> str:
    """The 95 % interval of a share: `31.0–44.4 %`."""
    ends = share.interval()
    return formatting.MISSING if ends is None else f"{100 * ends.low:.1f}–{100 * ends.high:.1f} %"


def share_note(share: Share) -> str:
    """Interval and counts behind a share: `31.0–44.4 %, 90 of 240`."""
    counts = f"{formatting.count(share.count)} of {formatting.count(share.of)}"
    return f"{share_ends(share)}, {counts}" if share.of else counts


def document(value: object) -> Markup:
    """A value as indented JSON for people: quotes and letters as they are, where `tojson` escapes
    them for scripts.
    """
    return safe_text.log(flask.json.dumps(value, indent=1, ensure_ascii=False, sort_keys=False))


def signed(value: float) -> str:
    """A number with its sign and one decimal."""
    return f"{value:+.1f}".replace("-", "−")


def tipped(label: str) -> Markup:
    """Attribute with the tooltip of a heading; nothing for an unknown one."""
    found = vocabulary.tip(label)
    return Markup(' title="{}"').format(found) if found else Markup("")


FILTERS: dict[str, Callable[..., object]] = {
    "ago": formatting.ago,
    "breakable": safe_text.breakable,
    "clock": clock,
    "conditions": conditions,
    "document": document,
    "count": formatting.count,
    "detector_title": explained_findings.title,
    "error_lines": finding_lines.error_lines,
    "explained": explained_findings.explained,
    "spans_of": lambda finding: finding_lines.of_candidate([finding]),
    "field_label": stored_values.label,
    "field_value": stored_values.shown,
    "duration_ms": formatting.duration_ms,
    "duration_us": formatting.duration_us,
    "figures": formatting.figures,
    "fingerprint": fingerprint,
    "interval": formatting.interval,
    "log": safe_text.log,
    "moment": moment,
    "markdown": rendered_markdown.rendered,
    "plural": formatting.plural,
    "percent": formatting.percent,
    "ratio": formatting.ratio,
    "reward": formatting.reward,
    "scientific": formatting.scientific,
    "shortened": shortened,
    "share_ends": share_ends,
    "share_note": share_note,
    "sign": sign,
    "signed": signed,
    "since": since,
    "stage": lambda name: evaluation_view.STAGE_NAMES.get(name, words(name)),
    "size_bytes": formatting.size_bytes,
    "tip": vocabulary.tip,
    "usd": formatting.usd,
    "tipped": tipped,
    "utc": formatting.utc,
    "words": words,
}
