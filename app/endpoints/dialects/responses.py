"""COLLECT: the Responses API, as OpenAI has it and vLLM serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.domain.collection.call import EndpointConfig, ModelRequest, Usage
from app.domain.request import RequestError
from app.endpoints import sse
from app.endpoints.dialects import base
from app.endpoints.dialects.base import HttpCall, MalformedAnswerError, Reading, decoded

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""Last events of a stream; each holds the whole response."""
_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "summary",
}
"""Event → part of the answer that it brings a piece of."""
_REASONING = ("reasoning", "summary")
_LOGPROBS = "message.output_text.logprobs"


class Responses:
    """`/responses`.  It has no seed, no stop sequences and no token ids; nothing is
    kept by the server.
    """

    streams_token_ids = True

    def build(self, request: ModelRequest, endpoint: EndpointConfig) -> HttpCall:
        """See Dialect."""
        if request.stop:
            raise RequestError(
                "sampling.stop: expected none: the Responses API has no stop sequences"
            )
        body = {
            "model": request.model or endpoint.model,
            "input": [{"role": one.role, "content": one.content} for one in request.messages],
            "max_output_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "stream": endpoint.stream and request.stream,
            "store": False,
            "include": [_LOGPROBS] if request.want_logprobs else None,
        }
        headers = {"X-Request-Id": request.request_id} if request.request_id else {}
        return HttpCall(
            path="/responses", body=base.merged(body, endpoint, request), headers=headers
        )

    def authorisation(self, key: str) -> Mapping[str, str]:
        """See Dialect."""
        return {"Authorization": f"Bearer {key}"}

    def read(self, body: Mapping[str, Any]) -> Reading:
        """See Dialect."""
        error = base.stated_error(body.get("error"))
        if error is not None:
            return Reading(error=error, provider_id=base.optional_text(body.get("id")))
        if not isinstance(body.get("output"), list):
            raise MalformedAnswerError("output: expected a list of items")
        return _reading(body)

    def assembly(self) -> ResponseAssembly:
        """See Dialect."""
        return ResponseAssembly()


class ResponseAssembly:
    """An answer out of events: the last one holds all of it, the pieces before it are
    kept for a stream that breaks.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {name: [] for name in _DELTAS.values()}
        self._length = 0
        self._begun: Mapping[str, Any] = {}
        self._whole: Mapping[str, Any] | None = None
        self._error: base.StatedError | None = None

    @property
    def over(self) -> bool:
        """See Assembly."""
        return self._whole is not None or self._error is not None

    @property
    def length(self) -> int:
        """See Assembly."""
        return self._length

    def feed(self, event: sse.Event) -> bool:
        """See Assembly.  Events of other names are skipped: the API may add some."""
        if event.data.strip() == sse.DONE:
            return False
        body = decoded(event.data)
        name = base.optional_text(body.get("type"))
        if name in _DELTAS:
            text = base.piece_of(body.get("delta"))
            self._pieces[_DELTAS[name]].append(text)
            self._length += len(text)
            return bool(text)
        if name == "response.created":
            self._begun = base.mapping_of(body.get("response"))
        elif name in ENDS:
            whole = base.mapping_of(body.get("response"))
            self._error = base.stated_error(whole.get("error"))
            self._whole = whole
        elif name == "error":
            self._error = base.stated_error(body.get("error") or body)
        return False

    def reading(self) -> Reading:
        """See Assembly."""
        if (
            self._whole is not None
            and self._error is None
            and isinstance(self._whole.get("output"), list)
        ):
            return _reading(self._whole)
        told = {name: base.joined(pieces) for name, pieces in self._pieces.items()}
        reasoning = next((name for name in _REASONING if told[name]), None)
        return Reading(
            text=told["text"] or told["refusal"],
            reasoning=told[reasoning] if reasoning else None,
            reasoning_field=reasoning,
            refused=bool(told["refusal"]) and not told["text"],
            provider_id=base.optional_text(self._begun.get("id")),
            model=base.optional_text(self._begun.get("model")),
            error=self._error,
            complete=False,
        )


def _reading(body: Mapping[str, Any]) -> Reading:
    """Facts of a whole response."""
    told: dict[str, list[str]] = {"text": [], "refusal": [], "reasoning": [], "summary": []}
    logprobs: list[float] = []
    for given in body["output"]:
        item = base.mapping_of(given)
        read = {"message": _message, "reasoning": _thought}.get(base.text_of(item.get("type")))
        if read is not None:
            read(item, told, logprobs)
    text, refusal = "".join(told["text"]), "".join(told["refusal"])
    reasoning = next((name for name in _REASONING if any(told[name])), None)
    return Reading(
        text=text or refusal,
        reasoning="\n".join(told[reasoning]) if reasoning else None,
        reasoning_field=reasoning,
        finish_reason=_finish_reason(body),
        refused=bool(refusal) and not text,
        provider_id=base.optional_text(body.get("id")),
        model=base.optional_text(body.get("model")),
        usage=_usage(base.mapping_of(body.get("usage"))),
        logprobs=tuple(logprobs) or None,
        complete=body.get("status") not in ("in_progress", "queued"),
    )


def _message(item: Mapping[str, Any], told: dict[str, list[str]], logprobs: list[float]) -> None:
    for part in _parts(item.get("content")):
        told["text"].append(
            base.text_of(part.get("text")) if part.get("type") == "output_text" else ""
        )
        told["refusal"].append(base.text_of(part.get("refusal")))
        for token in _parts(part.get("logprobs")):
            logprobs.append(base.logprob_of(token.get("logprob")))


def _thought(item: Mapping[str, Any], told: dict[str, list[str]], _logprobs: list[float]) -> None:
    told["reasoning"] += [base.text_of(part.get("text")) for part in _parts(item.get("content"))]
    told["summary"] += [base.text_of(part.get("text")) for part in _parts(item.get("summary"))]


def _parts(given: Any) -> list[Mapping[str, Any]]:
    return [base.mapping_of(part) for part in given] if isinstance(given, list) else []


def _finish_reason(body: Mapping[str, Any]) -> str | None:
    """The status, or the reason of an answer that is not whole."""
    reason = base.mapping_of(body.get("incomplete_details")).get("reason")
    return base.optional_text(reason) or base.optional_text(body.get("status"))


def _usage(told: Mapping[str, Any]) -> Usage:
    given, made = base.count_of(told.get("input_tokens")), base.count_of(told.get("output_tokens"))
    if given is None or made is None:
        return Usage(source="unknown")
    return Usage(
        input=given,
        cached_input=base.count_of(
            base.mapping_of(told.get("input_tokens_details")).get("cached_tokens")
        ),
        output=made,
        reasoning=base.count_of(
            base.mapping_of(told.get("output_tokens_details")).get("reasoning_tokens")
        ),
        source="reported",
    )
