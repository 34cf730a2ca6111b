"""COLLECT: chat completions as most servers speak them (`chat`), and OpenAI's own (`openai`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.domain.collection.call import EndpointConfig, ModelRequest, Usage
from app.endpoints import sse
from app.endpoints.dialects import base
from app.endpoints.dialects.base import HttpCall, MalformedAnswerError, Reading, decoded

REASONING = ("reasoning", "reasoning_content", "thinking", "thought")
"""Fields of a message that hold its reasoning: vLLM and OpenRouter, SGLang and DeepSeek, others."""
DETAILS = "reasoning_details"
"""Its field of parts, of OpenRouter."""
ERROR = "error"
"""Name of events that some gateways send in place of a chunk with an `error`."""
_TOKEN_ID = re.compile(r"token_id:(\d+)")


class Chat:
    """`/chat/completions` with the parameters of older servers."""

    streams_token_ids = True
    max_tokens_field = "max_tokens"

    def build(self, request: ModelRequest, endpoint: EndpointConfig) -> HttpCall:
        """See Dialect."""
        stream = endpoint.stream and request.stream
        stream = stream and (self.streams_token_ids or not request.want_token_ids)
        body = {
            "model": request.model or endpoint.model,
            "messages": [self.message(one) for one in request.messages],
            self.max_tokens_field: request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
            "stop": list(request.stop) or None,
            "stream": stream,
            "stream_options": {"include_usage": True} if stream else None,
            "logprobs": True if request.want_logprobs else None,
            **self.parameters(request, endpoint),
        }
        headers = {"X-Request-Id": request.request_id} if request.request_id else {}
        return HttpCall(
            path="/chat/completions", body=base.merged(body, endpoint, request), headers=headers
        )

    def message(self, message: Any) -> dict[str, Any]:
        """One message as this server wants it."""
        return {"role": message.role, "content": message.content}

    def parameters(self, request: ModelRequest, endpoint: EndpointConfig) -> dict[str, Any]:  # noqa: ARG002
        """Parameters beyond the common ones."""
        return {} if request.top_k is None else {"top_k": request.top_k}

    def authorisation(self, key: str) -> Mapping[str, str]:
        """See Dialect."""
        return {"Authorization": f"Bearer {key}"}

    def read(self, body: Mapping[str, Any]) -> Reading:
        """See Dialect."""
        assembly = ChatAssembly()
        assembly.add(body, "message")
        reading = assembly.reading()
        if reading.error is None and not assembly.chosen:
            raise MalformedAnswerError("choices: expected one with a message, got none")
        return replace(reading, complete=True)

    def assembly(self) -> ChatAssembly:
        """See Dialect."""
        return ChatAssembly()


class OpenAI(Chat):
    """OpenAI's own server, which refuses parameters that it does not know."""

    max_tokens_field = "max_completion_tokens"

    def parameters(self, request: ModelRequest, endpoint: EndpointConfig) -> dict[str, Any]:  # noqa: ARG002
        """None: `top_k` is not one of its parameters."""
        return {}


class ChatAssembly:
    """An answer out of chunks, or out of one body, which has the same fields below `message`."""

    def __init__(self) -> None:
        self.chosen = False
        """A choice with a message has come, be it an empty one."""
        self._text: list[str] = []
        self._length = 0
        self._reasoning: list[str] = []
        self._field: str | None = None
        self._refusal: list[str] = []
        self._prompt_ids: list[int] | None = None
        self._ids: list[int] | None = None
        self._logprobs: list[float] | None = None
        self._spelt_ids: list[int] | None = []
        self._told: dict[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self._error: base.StatedError | None = None
        self._done = False

    @property
    def over(self) -> bool:
        """See Assembly."""
        return self._done or self._error is not None

    @property
    def length(self) -> int:
        """See Assembly."""
        return self._length

    def feed(self, event: sse.Event) -> bool:
        """See Assembly."""
        if event.data.strip() == sse.DONE:
            self._done = True
            return False
        before, body = self._length, decoded(event.data)
        if event.name == ERROR:
            self._error = self._error or base.stated_error(
                body.get("error") or dict(body) or "without a message"
            )
        self.add(body, "delta")
        return self._length > before

    def add(self, body: Mapping[str, Any], part: str) -> None:
        """Add a chunk (`delta`) or a body (`message`)."""
        self._error = self._error or base.stated_error(body.get("error"))
        for name in ("id", "model", "system_fingerprint"):
            if isinstance(body.get(name), str):
                self._told.setdefault(name, base.text_of(body[name]))
        usage = body.get("usage") or base.mapping_of(body.get("x_groq")).get("usage")
        self._usage = base.mapping_of(usage) or self._usage
        self._prompt_ids = self._prompt_ids or base.ids_of(body.get("prompt_token_ids"))
        choices = body.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            chosen = base.mapping_of(choice)
            if chosen.get("index") in (0, None):
                self._add_choice(chosen, part)

    def _add_choice(self, choice: Mapping[str, Any], part: str) -> None:
        self._error = self._error or base.stated_error(choice.get("error"))
        if isinstance(choice.get("finish_reason"), str):
            self._told["finish_reason"] = base.text_of(choice["finish_reason"])
        self.chosen = self.chosen or any(
            isinstance(choice.get(name), dict) for name in (part, "message")
        )
        self._add_message(base.mapping_of(choice.get(part) or choice.get("message")))
        self._prompt_ids = self._prompt_ids or base.ids_of(choice.get("prompt_token_ids"))
        if (ids := base.ids_of(choice.get("token_ids"))) is not None:
            self._ids = (self._ids or []) + ids
        self._add_logprobs(base.mapping_of(choice.get("logprobs")).get("content"))
        self._add_meta(base.mapping_of(choice.get("meta_info")))

    def _add_message(self, message: Mapping[str, Any]) -> None:
        content = message.get("content")
        for kind, text in _parts(content) if isinstance(content, list) else [("text", content)]:
            self._add_reasoning("content", text) if kind == "thinking" else self._add_text(text)
        for name in REASONING:
            if isinstance(message.get(name), str) and message[name]:
                self._add_reasoning(name, message[name])
                break
        else:
            self._add_details(message.get(DETAILS))
        self._refusal.append(base.piece_of(message.get("refusal")))

    def _add_text(self, value: Any) -> None:
        text = base.piece_of(value)
        self._text.append(text)
        self._length += len(text)

    def _add_reasoning(self, name: str, value: Any) -> None:
        text = base.piece_of(value)
        self._field = self._field or name
        self._reasoning.append(text)
        self._length += len(text)

    def _add_details(self, details: Any) -> None:
        """Reasoning in parts, which OpenRouter repeats beside its text; parts that
        are encrypted have none.
        """
        for part in details if isinstance(details, list) else []:
            told = base.mapping_of(part)
            if text := told.get("text") or told.get("summary"):
                self._add_reasoning(DETAILS, text)

    def _add_logprobs(self, content: Any) -> None:
        for one in content if isinstance(content, list) else []:
            token = base.mapping_of(one)
            value = base.logprob_of(token.get("logprob"))
            self._logprobs = self._logprobs or []
            self._logprobs.append(value)
            spelt = _TOKEN_ID.fullmatch(str(token.get("token")))
            if spelt is None:
                self._spelt_ids = None
            elif self._spelt_ids is not None:
                self._spelt_ids.append(int(spelt[1]))

    def _add_meta(self, meta: Mapping[str, Any]) -> None:
        """SGLang's own record: [logprob, id, text] of every token."""
        rows = meta.get("output_token_logprobs")
        if not isinstance(rows, list) or not rows:
            return
        try:
            self._logprobs = [base.logprob_of(row[0]) for row in rows]
            self._ids = self._ids or base.ids_of([int(row[1]) for row in rows])
            self._told["weight_version"] = base.optional_text(meta.get("weight_version"))
        except (TypeError, ValueError, IndexError) as error:
            raise MalformedAnswerError(f"output_token_logprobs: {error}") from error

    def reading(self) -> Reading:
        """See Assembly."""
        text, refusal = base.joined(self._text), base.joined(self._refusal)
        ids = self._ids if self._ids is not None else self._spelt_ids or None
        finish_reason = self._told.get("finish_reason")
        return Reading(
            text=text or refusal,
            reasoning=base.joined(self._reasoning) or None,
            reasoning_field=self._field,
            finish_reason=finish_reason,
            refused=bool(refusal) and not text,
            provider_id=self._told.get("id"),
            model=self._told.get("model"),
            fingerprint=self._told.get("system_fingerprint"),
            weight_version=self._told.get("weight_version"),
            usage=usage_of(self._usage, ids, self._prompt_ids),
            cost_usd=base.cost_of(self._usage.get("cost")),
            prompt_token_ids=_tuple(self._prompt_ids),
            token_ids=_tuple(ids),
            logprobs=_matching(self._logprobs, ids),
            error=self._error,
            complete=self.chosen and (self._done or finish_reason is not None),
        )


def usage_of(told: Mapping[str, Any], ids: list[int] | None, prompt_ids: list[int] | None) -> Usage:
    """Tokens as reported; without a report counted from the ids, where there are some."""
    if base.count_of(told.get("completion_tokens")) is None:
        if ids is None:
            return Usage(source="unknown")
        prompt = None if prompt_ids is None else len(prompt_ids)
        return Usage(input=prompt, output=len(ids), source="counted")
    details = base.mapping_of(told.get("prompt_tokens_details"))
    output = base.mapping_of(told.get("completion_tokens_details"))
    cached = details.get("cached_tokens", told.get("prompt_cache_hit_tokens"))
    reasoning = output.get("reasoning_tokens", told.get("reasoning_tokens"))
    return Usage(
        input=base.count_of(told.get("prompt_tokens")),
        cached_input=base.count_of(cached),
        output=base.count_of(told.get("completion_tokens")),
        reasoning=base.count_of(reasoning),
        source="reported",
    )


def _parts(content: list[Any]) -> list[tuple[str, str]]:
    """Parts of a content in parts: text, and thoughts as some servers nest them."""
    found = []
    for part in content:
        told = base.mapping_of(part)
        if told.get("type") in ("thinking", "reasoning"):
            inner = told.get("thinking", told.get("text"))
            nested = _parts(inner) if isinstance(inner, list) else [("", base.piece_of(inner))]
            found.append(("thinking", "".join(text for _, text in nested)))
        elif told.get("type") in ("text", "output_text", None):
            found.append(("text", base.piece_of(told.get("text"))))
    return found


def _matching(logprobs: list[float] | None, ids: list[int] | None) -> tuple[float, ...] | None:
    """Logprobs, unless there is another number of tokens: some servers leave out that of the last
    one, and which token lacks its own is not known.
    """
    if logprobs is None or (ids is not None and len(ids) != len(logprobs)):
        return None
    return tuple(logprobs)


def _tuple(ids: list[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)
