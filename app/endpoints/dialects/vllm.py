"""COLLECT: vLLM's chat completions: token ids in every chunk, logprobs of the sampled tokens."""

from __future__ import annotations

from typing import Any

from app.domain.collection.call import EndpointConfig, ModelRequest
from app.endpoints.dialects.chat import Chat


class VLLM(Chat):
    """vLLM 0.11 and later."""

    max_tokens_field = "max_completion_tokens"

    def parameters(self, request: ModelRequest, endpoint: EndpointConfig) -> dict[str, Any]:
        """`return_token_ids`; `top_logprobs` 0, because the sampled token's own is
        all that counts.
        """
        return {
            **super().parameters(request, endpoint),
            "return_token_ids": True if request.want_token_ids else None,
            "top_logprobs": 0 if request.want_logprobs else None,
        }
