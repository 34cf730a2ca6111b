"""BROWSE: Jinja filters, and the signs and tones of every status, verdict and state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from app.domain.metrics import Share
from app.web import quantities, text

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
    # what a person may say besides
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
    # a dataset
    "fresh": ("good", "check"),
    "stale": ("warn", "warning"),
    "interrupted": ("warn", "question"),
    # a check, an ahead-of-time compilation, a turn
    "ok": ("good", "check"),
    "wrong": ("bad", "cross"),
    "not_attempted": ("", "void"),
    "no code": ("", "void"),
    # a problem against itself
    "accused": ("bad", "warning"),
    "blamed": ("bad", "cross"),
    "our fault": ("warn", "question"),
}
"""Value → tone (a CSS class) and icon (a symbol in static/icons.svg)."""


def finalize(value: object) -> object:
    """Every string a template prints: hidden characters made visible.  Escaping follows; markup stays as it is."""
    return text.visible(value) if type(value) is str else value


def sign(value: str) -> tuple[str, str]:
    """Tone and icon of a value."""
    return SIGNS[str(value)]


def words(value: object) -> str:
    """`compile_error` → `compile error`."""
    return str(value).replace("_", " ")


def fingerprint(value: dict[str, Any]) -> str:
    """Properties that tell one device from another, on one line; all are in every evaluation's environment."""
    versions = [
        f"{words(name)} {value[name]}" for name in ("torch", "triton", "python", "driver", "cuda") if value.get(name)
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


def clock(moment: datetime) -> str:
    """Hours and minutes in UTC."""
    return moment.astimezone(UTC).strftime("%H:%M")


def since(moment: datetime) -> str:
    """Duration since a moment."""
    return quantities.span(datetime.now(UTC) - moment)


def share_ends(share: Share) -> str:
    """The 95 % interval of a share: `31.0–44.4 %`."""
    ends = share.interval()
    return quantities.MISSING if ends is None else f"{100 * ends.low:.1f}–{100 * ends.high:.1f} %"


def share_note(share: Share) -> str:
    """Interval and counts behind a share: `31.0–44.4 %, 90 of 240`."""
    return f"{share_ends(share)}, {quantities.count(share.count)} of {quantities.count(share.of)}"


def signed(value: float) -> str:
    """A number with its sign and one decimal."""
    return f"{value:+.1f}".replace("-", "−")


FILTERS: dict[str, Callable[..., object]] = {
    "ago": quantities.ago,
    "clock": clock,
    "count": quantities.count,
    "duration_ms": quantities.duration_ms,
    "duration_us": quantities.duration_us,
    "fingerprint": fingerprint,
    "interval": quantities.interval,
    "log": text.log,
    "percent": quantities.percent,
    "ratio": quantities.ratio,
    "scientific": quantities.scientific,
    "share_ends": share_ends,
    "share_note": share_note,
    "sign": sign,
    "signed": signed,
    "since": since,
    "size_bytes": quantities.size_bytes,
    "utc": quantities.utc,
    "words": words,
}
