"""STORE: values as JSONB takes them."""

from __future__ import annotations

import math
from typing import Any

from app.domain.source import source_text


def plain(value: Any) -> Any:
    """Builtins that JSONB takes: finite numbers or None, text without NUL and lone surrogates."""
    if isinstance(value, str):
        return source_text.printable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
