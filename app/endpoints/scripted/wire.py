"""COLLECT: bodies and events of a scripted server, in the shapes of the servers that
it stands for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.endpoints.scripted import tokens

REPLY_ID = "chatcmpl-scripted"
DEFAULT_MODEL = "scripted"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer to be written to the wire."""

    text: str
    body: Mapping[str, Any]
    """The request."""
    digest: str
    chunk_characters: int

    @property
    def model(self) -> str:
        """Model as asked for."""
        return str(self.body.get("model") or DEFAULT_MODEL)

    @property
    def shown(self) -> str:
        """The text within the longest output that was asked for."""
        asked = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        if not asked or len(tokens.ids(self.text)) <= asked:
            return self.text
        return bytes(tokens.ids(self.text)[:asked]).decode("utf-8", "ignore")

    @property
    def finish_reason(self) -> str:
        """`length` where the text was cut."""
        return "stop" if self.shown == self.text else "length"

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens of prompt and answer."""
        prompt = len(tokens.prompt_ids(self.body["messages"]))
        output = len(tokens.ids(self.shown))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    @property
    def frame(self) -> dict[str, Any]:
        """Fields that every body and chunk has."""
        return {"id": f"{REPLY_ID}-{self.digest[:12]}", "created": 0, "model": self.model}


def body(reply: Reply) -> bytes:
    """The whole answer: `choices[0].message`."""
    ids = tokens.ids(reply.shown)
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": reply.shown},
        "finish_reason": reply.finish_reason,
    }
    told = {**reply.frame, "object": "chat.completion", "usage": reply.usage}
    if reply.body.get("logprobs"):
        choice["logprobs"] = _logprobs(ids, 0)
    if reply.body.get("return_token_ids"):
        choice["token_ids"] = ids
        told["prompt_token_ids"] = tokens.prompt_ids(reply.body["messages"])
    if reply.body.get("return_meta_info"):
        pairs = zip(tokens.logprobs(ids), ids, strict=True)
        choice["meta_info"] = {
            "output_token_logprobs": [[value, one, None] for value, one in pairs]
        }
    return json.dumps({**told, "choices": [choice]}).encode()


def chunks(reply: Reply) -> Iterator[bytes]:
    """The answer as a stream of chunks, with usage in the last one if it was asked for."""
    frame = {**reply.frame, "object": "chat.completion.chunk"}
    wants_ids = bool(reply.body.get("return_token_ids"))
    opening: dict[str, Any] = {**frame, "choices": [_delta({"role": "assistant", "content": ""})]}
    if wants_ids:
        opening["prompt_token_ids"] = tokens.prompt_ids(reply.body["messages"])
    yield _data(opening)
    start, shown = 0, reply.shown
    for begin in range(0, len(shown), reply.chunk_characters):
        part = shown[begin : begin + reply.chunk_characters]
        ids = tokens.ids(part)
        choice = _delta({"content": part})
        if wants_ids:
            choice["token_ids"] = ids
        if reply.body.get("logprobs"):
            choice["logprobs"] = _logprobs(ids, start)
        start += len(ids)
        yield _data({**frame, "choices": [choice]})
    yield _data({**frame, "choices": [{**_delta({}), "finish_reason": reply.finish_reason}]})
    if (reply.body.get("stream_options") or {}).get("include_usage"):
        yield _data({**frame, "choices": [], "usage": reply.usage})
    yield b"data: [DONE]\n\n"


def message(reply: Reply) -> bytes:
    """The whole answer in the shape of Anthropic's messages."""
    told = _message(reply, [{"type": "text", "text": reply.shown}], _stop_reason(reply))
    return json.dumps(told).encode()


def message_events(reply: Reply) -> Iterator[bytes]:
    """The answer as events of Anthropic's messages."""
    yield _event("message_start", {"message": _message(reply, [], None)})
    yield _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    for begin in range(0, len(reply.shown), reply.chunk_characters):
        part = reply.shown[begin : begin + reply.chunk_characters]
        delta = {"type": "text_delta", "text": part}
        yield _event("content_block_delta", {"index": 0, "delta": delta})
    yield _event("content_block_stop", {"index": 0})
    usage = {"output_tokens": reply.usage["completion_tokens"]}
    end = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", {"delta": end, "usage": usage})
    yield _event("message_stop", {})


def error(message: str, kind: str, code: int | str) -> bytes:
    """An error body."""
    told = {"type": "error", "error": {"message": message, "type": kind, "code": code}}
    return json.dumps(told).encode()


def _message(reply: Reply, content: list[dict[str, str]], stop: str | None) -> dict[str, Any]:
    usage = {"input_tokens": reply.usage["prompt_tokens"], "output_tokens": 1}
    if stop is not None:
        usage["output_tokens"] = reply.usage["completion_tokens"]
    return {
        "id": f"msg_{reply.digest[:12]}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }


def _stop_reason(reply: Reply) -> str:
    return "end_turn" if reply.finish_reason == "stop" else "max_tokens"


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": None}


def _logprobs(ids: list[int], start: int) -> dict[str, Any]:
    values = tokens.logprobs(ids, start)
    rows = [
        {"token": f"token_id:{one}", "logprob": value, "bytes": [one], "top_logprobs": []}
        for one, value in zip(ids, values, strict=True)
    ]
    return {"content": rows}


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _event(name: str, value: dict[str, Any]) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name, **value})
