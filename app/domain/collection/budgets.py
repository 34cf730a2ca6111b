"""COLLECT: budgets.  A call reserves the most that it can cost before it is made,
and is settled afterwards.

Caps hold at every moment: spent + reserved never exceeds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from app.domain.collection.call import EndpointConfig, ModelAnswer, ModelRequest
from app.domain.request import RequestError

TOKENS_PER_MESSAGE = 16
"""At most, for the marks that a chat template puts around a message."""


MOST_WALL_S = 1e9
"""Longest wall time of a collection, in seconds: thirty years."""


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Quantities that a collection spends."""

    calls: int = 0
    tokens: int = 0
    """Input and output."""
    usd: float = 0.0
    evaluations: int = 0
    gpu_s: float = 0.0
    """Device seconds of evaluations, from claim to result."""

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in NAMES})


NAMES = tuple(each.name for each in fields(Amounts))
"""Names of the quantities."""


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Upper limits; None: no limit."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    evaluations: int | None = None
    gpu_s: float | None = None
    wall_s: float | None = None
    """Seconds from the start; no call begins later."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not value > 0:
                raise RequestError(
                    f"{each.name}: expected a budget above 0, or none, got {value!r}"
                )
        if self.wall_s is not None and self.wall_s > MOST_WALL_S:
            raise RequestError(f"wall_s: expected at most {MOST_WALL_S:g}, got {self.wall_s!r}")


class Fit(StrEnum):
    """Result of a test whether a reservation fits under the caps."""

    YES = "yes"
    WAIT = "wait"
    """It may fit later, once calls in flight are settled for less than they reserve."""
    NEVER = "never"


def fits(caps: Caps, spent: Amounts, reserved: Amounts, maximum: Amounts) -> tuple[Fit, str]:
    """Test whether `maximum` may be reserved now, and the quantity that forbids it."""
    answer, what = Fit.YES, ""
    for name in NAMES:
        cap = getattr(caps, name)
        if cap is None:
            continue
        if getattr(spent, name) + getattr(maximum, name) > cap:
            return Fit.NEVER, name
        if getattr(spent, name) + getattr(reserved, name) + getattr(maximum, name) > cap:
            answer, what = Fit.WAIT, name
    return answer, what


def maximum(config: EndpointConfig, request: ModelRequest, *, deadline_s: float) -> Amounts:
    """The most that one attempt can cost: its call, and the evaluation of its answer.

    A token has at least one byte, so a prompt has at most as many tokens as bytes."""
    prompt = sum(
        len(each.content.encode("utf-8", "surrogatepass")) + TOKENS_PER_MESSAGE
        for each in request.messages
    )
    if config.context_tokens is not None:
        prompt = min(prompt, config.context_tokens)
    usd = _usd(config, prompt, 0, request.max_tokens)
    return Amounts(
        calls=1, tokens=prompt + request.max_tokens, usd=usd, evaluations=1, gpu_s=deadline_s
    )


def spent(answer: ModelAnswer, most: Amounts) -> Amounts:
    """Tokens and money of a call that was made; the reserved maximum where the
    server told nothing and may charge.
    """
    usage = answer.usage
    known = usage.input is not None and usage.output is not None
    if answer.error is not None and not answer.error.paid and not known:
        return Amounts(calls=1)
    tokens = (usage.input or 0) + (usage.output or 0) if known else most.tokens
    usd = (
        answer.cost_usd
        if answer.cost_usd is not None
        else (0.0 if known and not most.usd else most.usd)
    )
    return Amounts(calls=1, tokens=tokens, usd=usd)


def evaluated(result: Mapping[str, Any]) -> Amounts:
    """One evaluation with its device seconds."""
    return Amounts(evaluations=1, gpu_s=(result["timings_ms"].get("total") or 0.0) / 1e3)


def as_mapping(amounts: Amounts | Caps) -> dict[str, Any]:
    """Quantity → value, in the order of NAMES."""
    return {name: getattr(amounts, name) for name in NAMES}


def _usd(config: EndpointConfig, uncached: int, cached: int, output: int) -> float:
    prices = config.prices
    parts = ((prices.input, uncached), (prices.cached_input, cached), (prices.output, output))
    return sum((price or 0.0) * tokens / 1e6 for price, tokens in parts)
