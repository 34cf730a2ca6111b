"""COLLECT: reasons for the end of an answer, in one vocabulary."""

from __future__ import annotations

from types import MappingProxyType

from app.domain.collection.call import End

CUT_BY_CLIENT = "cut by the client"
"""Finish reason of an answer that grew beyond the longest that is kept."""

_ENDS = MappingProxyType(
    {
        "stop": End.STOP,
        "end_turn": End.STOP,
        "completed": End.STOP,
        "stop_sequence": End.STOP,
        "eos": End.STOP,
        "eos_token": End.STOP,
        "length": End.LENGTH,
        "max_tokens": End.LENGTH,
        "max_output_tokens": End.LENGTH,
        "model_context_window_exceeded": End.LENGTH,
        CUT_BY_CLIENT: End.LENGTH,
        "content_filter": End.CONTENT_FILTER,
        "sensitive": End.CONTENT_FILTER,  # GLM
        "safety": End.CONTENT_FILTER,
        "recitation": End.CONTENT_FILTER,
        "refusal": End.REFUSED,
        "tool_calls": End.TOOL_CALLS,
        "tool_use": End.TOOL_CALLS,
        "function_call": End.TOOL_CALLS,
        "abort": End.ABORT,
        "cancelled": End.ABORT,
        "error": End.ERROR,
        "failed": End.ERROR,  # the Responses API, also without an error
        "insufficient_system_resource": End.ERROR,  # DeepSeek
        "network_error": End.ERROR,  # GLM
    }
)


def normal(finish_reason: str | None, *, refused: bool = False) -> End:
    """The end that a server's own word means; `unknown` for words of which no meaning is known."""
    if refused:
        return End.REFUSED
    return _ENDS.get((finish_reason or "").lower(), End.UNKNOWN)
