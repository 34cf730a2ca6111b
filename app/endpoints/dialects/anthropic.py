"""COLLECT: Anthropic's messages API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.domain.collection.call import EndpointConfig, ModelRequest, Usage
from app.endpoints import sse
from app.endpoints.dialects import base
from app.endpoints.dialects.base import HttpCall, MalformedAnswerError, Reading, decoded

API_VERSION = "2023-06-01"


class Anthropic:
    """`/v1/messages`.  It has no seed, no token ids and no logprobs."""

    streams_token_ids = True

    def build(self, request: ModelRequest, endpoint: EndpointConfig) -> HttpCall:
        """See Dialect."""
        system = "\n\n".join(one.content for one in request.messages if one.role == "system")
        turns = [
            {"role": one.role, "content": one.content}
            for one in request.messages
            if one.role != "system"
        ]
        body = {
            "model": request.model or endpoint.model,
            "system": system or None,
            "messages": turns,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "stop_sequences": list(request.stop) or None,
            "stream": endpoint.stream and request.stream,
        }
        return HttpCall(
            path="/messages",
            body=base.merged(body, endpoint, request),
            headers={"anthropic-version": API_VERSION},
        )

    def authorisation(self, key: str) -> Mapping[str, str]:
        """See Dialect."""
        return {"x-api-key": key}

    def read(self, body: Mapping[str, Any]) -> Reading:
        """See Dialect."""
        assembly = MessageAssembly()
        if error := base.stated_error(body.get("error")):
            return Reading(error=error)
        if not isinstance(body.get("content"), list):
            raise MalformedAnswerError("content: expected a list of blocks")
        assembly.start(body)
        for index, block in enumerate(body["content"]):
            assembly.open(index, base.mapping_of(block))
        assembly.end(body)
        return replace(assembly.reading(), complete=True)

    def assembly(self) -> MessageAssembly:
        """See Dialect."""
        return MessageAssembly()


class MessageAssembly:
    """An answer out of content blocks."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"text": [], "thinking": []}
        self._length = 0
        self._told: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._error: base.StatedError | None = None
        self._begun = self._stopped = False

    @property
    def over(self) -> bool:
        """See Assembly."""
        return self._stopped or self._error is not None

    @property
    def length(self) -> int:
        """See Assembly."""
        return self._length

    def feed(self, event: sse.Event) -> bool:
        """See Assembly.  Events of other names are skipped: the API may add some."""
        body, before = decoded(event.data), self._length
        match body.get("type"):
            case "message_start":
                self.start(base.mapping_of(body.get("message")))
            case "content_block_start":
                self.open(body.get("index"), base.mapping_of(body.get("content_block")))
            case "content_block_delta":
                self._add(base.mapping_of(body.get("delta")))
            case "message_delta":
                self.end({**base.mapping_of(body.get("delta")), "usage": body.get("usage")})
            case "message_stop":
                self._stopped = True
            case "error":
                self._error = base.stated_error(body.get("error") or "error event without a text")
        return self._length > before

    def start(self, message: Mapping[str, Any]) -> None:
        """Id, model and the input's tokens."""
        self._begun = True
        for name in ("id", "model"):
            self._told[name] = base.optional_text(message.get(name))
        self._usage.update(base.mapping_of(message.get("usage")))

    def open(self, _index: Any, block: Mapping[str, Any]) -> None:
        """Begin a block, which is whole in a body and empty in a stream."""
        self._add(block)

    def end(self, told: Mapping[str, Any]) -> None:
        """Stop reason, and the output's tokens so far."""
        self._told["stop_reason"] = base.optional_text(told.get("stop_reason"))
        usage = base.mapping_of(told.get("usage"))
        self._usage.update({name: value for name, value in usage.items() if value is not None})

    def _add(self, part: Mapping[str, Any]) -> None:
        for name, texts in self._texts.items():
            text = base.piece_of(part.get(name))
            texts.append(text)
            self._length += len(text)

    def reading(self) -> Reading:
        """See Assembly."""
        thought = base.joined(self._texts["thinking"]) or None
        reason = self._told.get("stop_reason")
        return Reading(
            text=base.joined(self._texts["text"]),
            reasoning=thought,
            reasoning_field="thinking" if thought else None,
            finish_reason=reason,
            refused=reason == "refusal",
            provider_id=self._told.get("id"),
            model=self._told.get("model"),
            usage=_usage(self._usage),
            error=self._error,
            complete=self._begun and (self._stopped or reason is not None),
        )


def _usage(told: Mapping[str, Any]) -> Usage:
    """Tokens.  `input_tokens` leaves out those that were read from or written to the cache."""
    fresh = base.count_of(told.get("input_tokens"))
    output = base.count_of(told.get("output_tokens"))
    if fresh is None or output is None:
        return Usage(source="unknown")
    read = base.count_of(told.get("cache_read_input_tokens")) or 0
    written = base.count_of(told.get("cache_creation_input_tokens")) or 0
    return Usage(input=fresh + read + written, cached_input=read, output=output, source="reported")
