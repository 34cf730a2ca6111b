"""STORE: an evaluation as JSONB and back, so that it can be judged again years later."""

from __future__ import annotations

from typing import Any

import msgspec

from app.domain.evaluation import Evaluation
from app.store.postgres import jsonb


class CodecError(ValueError):
    """An evaluation that JSONB cannot hold, or stored JSON that does not fit an evaluation."""


def encode(evaluation: Evaluation) -> dict[str, Any]:
    """JSON for the column `measurement`.

    NaN and infinities become None where the field may be None; elsewhere they raise
    CodecError, because a number that cannot be read must not be stored.  Characters
    that JSONB refuses become U+FFFD.
    """
    encoded: dict[str, Any] = jsonb.plain(msgspec.to_builtins(evaluation))
    decode(encoded)
    return encoded


def decode(data: dict[str, Any]) -> Evaluation:
    """The evaluation that `encode` was given.  Raises CodecError with the path of
    the value that does not fit.
    """
    try:
        return msgspec.convert(data, Evaluation)
    except msgspec.ValidationError as error:
        raise CodecError(f"not an evaluation: {error}") from error
