"""An OpenAI-compatible server around a ChatModel, with the fields by which vLLM
gives token ids and logprobs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from tests.bench.rl.chat_model import CONTEXT, ChatModel, Token

NAME = "random"
USUAL_TOKENS = 16
KNOWN = {
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "seed",
    "stream",
    "stream_options",
    "logprobs",
    "top_logprobs",
    "return_token_ids",
}
"""Fields of a request that are heeded; others are refused, because a server that
ignores them says nothing.
"""


class RequestRefusedError(ValueError):
    """A request that the server cannot answer."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    chat: ChatModel
    """Set on the subclass that a server is made of."""

    def do_GET(self) -> None:
        """The list of models."""
        self._whole(
            200,
            {"object": "list", "data": [{"id": NAME, "object": "model", "max_model_len": CONTEXT}]},
        )

    def do_POST(self) -> None:
        """A chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            prompt, most = self._read(body)
        except RequestRefusedError as error:
            told = {"message": str(error), "type": "BadRequestError", "code": 400}
            self._whole(400, {"error": told})
            return
        temperature = 1.0 if body.get("temperature") is None else float(body["temperature"])
        tokens = self.chat.sample(prompt, most=most, temperature=temperature, seed=body.get("seed"))
        frame = {"id": f"chatcmpl-{uuid4().hex}", "created": 0, "model": NAME}
        if body.get("stream"):
            self._stream(body, frame, prompt, tokens)
        else:
            self._whole(200, self._completion(body, frame, prompt, list(tokens)))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _read(self, body: Mapping[str, Any]) -> tuple[list[int], int]:
        """Tokens of the prompt, and of the answer at most."""
        if self.path != "/v1/chat/completions":
            raise RequestRefusedError(f"path: expected /v1/chat/completions, got {self.path}")
        if unknown := sorted(set(body) - KNOWN):
            raise RequestRefusedError(f"{unknown[0]}: expected one of {', '.join(sorted(KNOWN))}")
        prompt = self.chat.prompt_ids(body["messages"])
        most = body.get("max_completion_tokens") or body.get("max_tokens") or USUAL_TOKENS
        if len(prompt) + most > CONTEXT:
            raise RequestRefusedError(
                f"This model's maximum context length is {CONTEXT} tokens, got {len(prompt)} and"
                f" {most} for the answer"
            )
        return prompt, int(most)

    def _completion(
        self,
        body: Mapping[str, Any],
        frame: Mapping[str, Any],
        prompt: list[int],
        tokens: list[Token],
    ) -> dict[str, Any]:
        text = self.chat.text([each.id for each in tokens])
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": self._reason(tokens),
            **self._details(body, tokens),
        }
        told = {
            **frame,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _usage(prompt, tokens),
        }
        return {**told, "prompt_token_ids": prompt} if body.get("return_token_ids") else told

    def _stream(
        self,
        body: Mapping[str, Any],
        frame: Mapping[str, Any],
        prompt: list[int],
        tokens: Iterator[Token],
    ) -> None:
        frame = {**frame, "object": "chat.completion.chunk"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        opening = {
            **frame,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}],
        }
        self._event(
            {**opening, "prompt_token_ids": prompt} if body.get("return_token_ids") else opening
        )
        seen: list[Token] = []
        for token in tokens:
            seen.append(token)
            delta = {"content": self.chat.text([token.id])}
            choice = {
                "index": 0,
                "delta": delta,
                "finish_reason": None,
                **self._details(body, [token]),
            }
            self._event({**frame, "choices": [choice]})
        self._event(
            {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": self._reason(seen)}]}
        )
        if (body.get("stream_options") or {}).get("include_usage"):
            self._event({**frame, "choices": [], "usage": _usage(prompt, seen)})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _details(self, body: Mapping[str, Any], tokens: list[Token]) -> dict[str, Any]:
        """Token ids and logprobs, as far as they were asked for."""
        found: dict[str, Any] = {}
        if body.get("return_token_ids"):
            found["token_ids"] = [each.id for each in tokens]
        if body.get("logprobs"):
            rows = [
                {
                    "token": self.chat.tokenizer.decode([each.id]),
                    "logprob": each.logprob,
                    "bytes": None,
                    "top_logprobs": [],
                }
                for each in tokens
            ]
            found["logprobs"] = {"content": rows}
        return found

    def _reason(self, tokens: list[Token]) -> str:
        return "stop" if tokens and tokens[-1].id == self.chat.end else "length"

    def _event(self, value: Mapping[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def _whole(self, status: int, value: Mapping[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _usage(prompt: list[int], tokens: list[Token]) -> dict[str, int]:
    counts = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)}
    return {**counts, "total_tokens": sum(counts.values())}


@contextmanager
def serving(chat: ChatModel, port: int = 0) -> Iterator[str]:
    """The server's base URL while it runs in threads of this process."""
    handler = type("ChatHandler", (Handler,), {"chat": chat})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
