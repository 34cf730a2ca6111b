"""COLLECT: dialects: how a family of servers is asked, and how its answers are read.
One file each.

chat        chat completions as most servers speak them
openai      OpenAI's own
vllm        token ids and logprobs, streamed
sglang      token ids and logprobs, with whole bodies
openrouter  usage with its cost; errors inside HTTP 200
anthropic   the messages API
responses   the Responses API of OpenAI and vLLM
"""

from __future__ import annotations

from functools import cache

from app import plugins
from app.endpoints.dialects.anthropic import Anthropic
from app.endpoints.dialects.base import Dialect
from app.endpoints.dialects.chat import Chat, OpenAI
from app.endpoints.dialects.openrouter import OpenRouter
from app.endpoints.dialects.responses import Responses
from app.endpoints.dialects.sglang import SGLang
from app.endpoints.dialects.vllm import VLLM

BUILTIN: dict[str, Dialect] = {
    "chat": Chat(),
    "openai": OpenAI(),
    "vllm": VLLM(),
    "sglang": SGLang(),
    "openrouter": OpenRouter(),
    "anthropic": Anthropic(),
    "responses": Responses(),
}


def find(name: str) -> Dialect:
    """The dialect of that name.  Raises UnknownPluginError."""
    return plugins.find("dialects", _known(), name)


@cache
def _known() -> dict[str, Dialect]:
    """Built-ins and those of installed packages, looked up once: every call asks."""
    return plugins.extend("dialects", BUILTIN)
