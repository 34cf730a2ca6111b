"""COLLECT: an endpoint's abilities, found out by asking it, before a campaign depends on them.

A probe makes up to a dozen calls of a few tokens and reports observed behaviour: a server that
ignores a parameter says nothing, so seeds and logprobs are compared between answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from urllib3.exceptions import HTTPError

from app.domain.collection.call import EndpointConfig, ErrorKind, ModelAnswer, ModelRequest
from app.domain.trajectory import Message
from app.endpoints import caller, connection, dialects
from app.endpoints.dialects.base import MalformedAnswerError, decoded

MESSAGES = (
    Message(role="user", content="Name a number, a colour and an animal, each in one word."),
    Message(role="assistant", content="Seven, green, otter."),
    Message(role="user", content="Again, with others."),
)
"""The dialogue of all probes: three turns, so that its token ids tell one chat
template from another.
"""
TOKENS = 24
"""Tokens of an answer: enough to tell two seeds apart."""
TRIES = 4
"""Draws of a first token at each temperature, until both have one in common."""
TEMPERATURES = (1.0, 0.5)
"""Temperatures at which the logprob of one token differs, unless it is raw."""
CERTAIN = 1e-3
"""A token with a logprob above the negative of this has the same logprob at any temperature."""
SAME = 1e-4
"""Logprobs that differ by less are the same."""
SEED, OTHER_SEED = 20_261_123, 77
"""Two seeds, of no meaning."""
GET_S = 10.0
"""Seconds for the list of models, and for the version."""

Call = Callable[[ModelRequest], ModelAnswer]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Findings.  None means that it could not be found out."""

    reachable: bool
    error: str | None = None
    model_listed: bool | None = None
    server_version: str | None = None
    context_tokens: int | None = None
    streams: bool = False
    first_token_ms: float | None = None
    usage: bool = False
    reasoning_field: str | None = None
    finish_reason: str | None = None
    seed: bool | None = None
    token_ids: bool = False
    prompt_token_ids: bool = False
    logprobs: bool = False
    logprobs_mode: str | None = None
    """`processed` (with the temperature) or `raw` (before it)."""
    template_sha256: str | None = None
    """Hash of the token ids of a fixed dialogue: of tokenizer and chat template together."""
    cost_reported: bool = False
    rate: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def capabilities(self) -> dict[str, Any]:
        """The findings as stored with the endpoint."""
        return asdict(self)


def probe(endpoint: EndpointConfig, *, key: str | None = None) -> Probe:
    """Ask the endpoint.  Raises RequestError for a bad configuration; faults of the
    server are findings.
    """
    bare = replace(endpoint, capabilities={})

    def call(request: ModelRequest) -> ModelAnswer:
        return caller.call(bare, request, key=key)

    listed = _listed(bare, key)
    first, supported = _first(call)
    if first.error is not None:
        message = f"{first.error.kind}: {first.error.message}"
        found = Probe(reachable=first.status is not None, error=message, **listed)
        return replace(found, warnings=(f"the endpoint did not answer: {message}",))
    found = replace(
        _read(first),
        **listed,
        seed=_seed(call, first),
        logprobs_mode=_logprobs_mode(call) if supported and first.logprobs else None,
    )
    return replace(found, warnings=tuple(_warnings(found, endpoint)))


def _request(**fields: Any) -> ModelRequest:
    given = {
        "model": "",
        "messages": MESSAGES,
        "max_tokens": TOKENS,
        "temperature": 1.0,
        "seed": SEED,
    }
    return ModelRequest(**{**given, **fields})


def _first(call: Call) -> tuple[ModelAnswer, bool]:
    """An answer with token ids and logprobs, or without where the server refuses to give them."""
    answer = call(_request(want_token_ids=True, want_logprobs=True))
    if answer.error is None or answer.error.kind is not ErrorKind.BAD_REQUEST:
        return answer, True
    return call(_request()), False


def _read(answer: ModelAnswer) -> Probe:
    first_ms = None
    if answer.first_token_at is not None and answer.sent_at is not None:
        first_ms = (answer.first_token_at - answer.sent_at).total_seconds() * 1e3
    ids = answer.prompt_token_ids
    return Probe(
        reachable=True,
        streams=answer.first_token_at is not None,
        first_token_ms=first_ms,
        usage=answer.usage.source == "reported",
        reasoning_field=answer.reasoning_field,
        finish_reason=answer.finish_reason,
        token_ids=answer.token_ids is not None,
        prompt_token_ids=ids is not None,
        logprobs=answer.logprobs is not None,
        template_sha256=(
            None if ids is None else hashlib.sha256(json.dumps(ids).encode()).hexdigest()
        ),
        cost_reported=answer.cost_source == "reported",
        rate={name: value for name, value in vars(answer.rate).items() if value is not None},
    )


def _seed(call: Call, first: ModelAnswer) -> bool | None:
    """True if one seed gives one text and another seed another; None where all texts
    are the same.
    """
    again = call(
        _request(
            want_token_ids=first.token_ids is not None, want_logprobs=first.logprobs is not None
        )
    )
    if again.error is not None:
        return None
    if _said(again) != _said(first):
        return False
    other = call(_request(seed=OTHER_SEED))
    if other.error is not None or _said(other) == _said(first):
        return None
    return True


def _said(answer: ModelAnswer) -> tuple[str, str | None]:
    return answer.text, answer.reasoning


def _logprobs_mode(call: Call) -> str | None:
    """Compare the logprob of one first token at two temperatures: they are equal if it is raw."""
    seen: list[dict[object, float]] = [{}, {}]
    for attempt in range(TRIES):
        for known, temperature in zip(seen, TEMPERATURES, strict=True):
            asked = _request(max_tokens=1, temperature=temperature, seed=SEED + attempt)
            answer = call(replace(asked, want_token_ids=True, want_logprobs=True))
            if answer.error is None and answer.logprobs:
                token: object = answer.token_ids[0] if answer.token_ids else _said(answer)
                known[token] = answer.logprobs[0]
        for shared in seen[0].keys() & seen[1].keys():
            a, b = seen[0][shared], seen[1][shared]
            if min(a, b) < -CERTAIN:
                return "raw" if abs(a - b) < SAME else "processed"
    return None


def _listed(endpoint: EndpointConfig, key: str | None) -> dict[str, Any]:
    """Model list and version, where the server has them."""
    root = endpoint.base_url.rstrip("/")
    models = _get(f"{root}/models", endpoint, key).get("data")
    rows = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    row = next((one for one in rows if one.get("id") == endpoint.model), None)
    version = _get(f"{root.removesuffix('/v1')}/version", endpoint, key).get("version")
    lengths = (row or {}).get("max_model_len"), (row or {}).get("context_length")
    return {
        "model_listed": row is not None if rows else None,
        "server_version": version if isinstance(version, str) else None,
        "context_tokens": next((one for one in lengths if isinstance(one, int)), None),
    }


def _get(url: str, endpoint: EndpointConfig, key: str | None) -> dict[str, Any]:
    headers = {
        **endpoint.headers,
        **(dialects.find(endpoint.dialect).authorisation(key) if key else {}),
    }
    try:
        response = connection.pool().urlopen(
            "GET", url, headers=headers, timeout=GET_S, redirect=False
        )
        return dict(decoded(response.data)) if response.status == 200 else {}
    except (HTTPError, MalformedAnswerError):
        return {}


def _warnings(found: Probe, endpoint: EndpointConfig) -> list[str]:
    """Consequences for a campaign, one sentence each."""
    told = []
    if found.model_listed is False:
        told.append(f"the server's list of models has no {endpoint.model!r}")
    if found.seed is False:
        told.append(
            "seeds are not honoured: the same call gives another answer, so samples cannot be"
            " repeated"
        )
    elif found.seed is None:
        told.append(
            "whether seeds are honoured is not known: every answer was the same, or the server has"
            " no seeds"
        )
    if not found.usage:
        told.append(
            "no usage is reported: budgets then count what was reserved, the most that a call may"
            " take"
        )
    if not found.token_ids:
        told.append("no token ids: exports for token-level training will have none")
    elif not found.logprobs:
        told.append("no logprobs: importance ratios cannot be computed from this collection")
    if found.logprobs_mode == "raw":
        told.append(
            "logprobs are raw, before the temperature: ratios are wrong unless the temperature is 1"
            " (vLLM: --logprobs-mode processed_logprobs)"
        )
    if not found.streams and endpoint.stream:
        told.append("answers do not stream: a call that hangs is noticed only after first_token_s")
    if endpoint.prices.input is None and not found.cost_reported:
        told.append(
            "no prices: the cost of a collection is not known, and budgets in USD are refused"
        )
    if (
        found.context_tokens
        and endpoint.context_tokens
        and endpoint.context_tokens > found.context_tokens
    ):
        told.append(
            f"context_tokens is {endpoint.context_tokens}, the server's is {found.context_tokens}"
        )
    if endpoint.key_env and endpoint.base_url.startswith("http://"):
        told.append("the key is sent unencrypted: base_url begins with http://")
    return told
