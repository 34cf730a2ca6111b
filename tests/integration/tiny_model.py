"""A chat server around a recurrent network with random weights, in the protocol of vLLM.

`python tiny_model.py raw|processed` prints its address.  Tokens are bytes; `Network` gives the
logprobs that a test computes again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

END = 256
"""The token that ends an answer."""


class Network(nn.Module):
    """Byte-level language model; the same weights in every process."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.embedding = nn.Embedding(END + 1, 32)
        self.core = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, END + 1)
        with torch.no_grad():
            self.head.weight.mul_(6)  # a random network is nearly uniform otherwise

    @torch.no_grad()
    def logprobs(
        self, prompt: list[int], answer: list[int], temperature: float = 1.0
    ) -> list[float]:
        """Logprobs of the answer's tokens, all at once."""
        states, _ = self.core(self.embedding(torch.tensor([prompt + answer])))
        logits = self.head(states[0, len(prompt) - 1 : -1]).double() / temperature
        places = torch.arange(len(answer))
        return torch.log_softmax(logits, -1)[places, torch.tensor(answer)].tolist()

    @torch.no_grad()
    def sample(
        self, prompt: list[int], most: int, temperature: float, seed: int
    ) -> Iterator[tuple[int, float, float]]:
        """Tokens one by one, each with its raw and its processed logprob."""
        generator = torch.Generator().manual_seed(seed)
        states, hidden = self.core(self.embedding(torch.tensor([prompt])))
        for _ in range(most):
            logits = self.head(states[0, -1]).double()
            processed = torch.log_softmax(logits / temperature, -1)
            token = int(torch.multinomial(processed.exp(), 1, generator=generator))
            yield token, float(torch.log_softmax(logits, -1)[token]), float(processed[token])
            if token == END:
                return
            states, hidden = self.core(self.embedding(torch.tensor([[token]])), hidden)


def prompt_of(messages: list[dict[str, str]]) -> list[int]:
    """The chat template."""
    return list(
        "".join(f"<{one['role']}>{one['content']}\n" for one in messages).encode() + b"<assistant>"
    )


class Handler(BaseHTTPRequestHandler):
    """One completion, streamed."""

    protocol_version = "HTTP/1.1"
    network = Network()
    processed = False

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in self.chunks(body):
            self.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def write(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def chunks(self, body: dict) -> Iterator[dict]:
        prompt, count, last = prompt_of(body["messages"]), 0, None
        frame = {"id": "tiny-1", "model": body["model"]}
        opening = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        yield {**frame, "choices": [opening], "prompt_token_ids": prompt}
        drawn = self.network.sample(
            prompt, body["max_completion_tokens"], body.get("temperature", 1.0), body.get("seed", 0)
        )
        for last, raw, processed in drawn:
            count += 1
            text = "" if last == END else chr(last)
            row = {
                "token": text,
                "logprob": processed if self.processed else raw,
                "bytes": [last],
                "top_logprobs": [],
            }
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
            yield {
                **frame,
                "choices": [{**choice, "token_ids": [last], "logprobs": {"content": [row]}}],
            }
        reason = "stop" if last == END else "length"
        yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": count,
            "total_tokens": len(prompt) + count,
        }
        yield {**frame, "choices": [], "usage": usage}


if __name__ == "__main__":
    torch.set_num_threads(1)
    Handler.processed = sys.argv[1] == "processed"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
