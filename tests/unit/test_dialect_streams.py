"""Answers that come as streams, and those of the Responses API: put together, cut
short, with errors.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.request import RequestError
from app.endpoints import dialects, finish
from app.endpoints.sse import Event
from tests.unit.dialects import REQUEST, body, chunk, read, streamed


# streams
def test_a_stream_of_vllm_is_put_together():
    found = streamed(
        "vllm",
        {**chunk({"role": "assistant", "content": ""}), "prompt_token_ids": [1, 2]},
        chunk(
            {"reasoning": "Th"},
            token_ids=[10],
            logprobs={"content": [{"token": "a", "logprob": -1.0}]},
        ),
        chunk(
            {"reasoning": "ink"},
            token_ids=[11],
            logprobs={"content": [{"token": "b", "logprob": -2.0}]},
        ),
        chunk(
            {"content": "Hi"},
            token_ids=[12],
            logprobs={"content": [{"token": "c", "logprob": -3.0}]},
        ),
        chunk(
            {"content": ""},
            finish_reason="stop",
            token_ids=[2],
            logprobs={"content": [{"logprob": -4.0}]},
        ),
        {
            "id": "c-1",
            "model": "m-1",
            "choices": [],
            "usage": {"prompt_tokens": 2, "completion_tokens": 4},
        },
        "[DONE]",
    )
    told = found.reading()
    assert (told.text, told.reasoning) == ("Hi", "Think")
    assert (told.prompt_token_ids, told.token_ids) == ((1, 2), (10, 11, 12, 2))
    assert told.logprobs == (-1.0, -2.0, -3.0, -4.0)
    assert (told.usage.output, told.usage.source, told.complete, found.over) == (
        4,
        "reported",
        True,
        True,
    )


def test_tokens_of_a_broken_stream_are_counted():
    told = streamed(
        "vllm", {**chunk({"content": "H"}, token_ids=[1, 2]), "prompt_token_ids": [3]}
    ).reading()
    assert (told.usage.input, told.usage.output, told.usage.source) == (1, 2, "counted")
    assert not told.complete


def test_ids_spelt_as_tokens_are_read():
    rows = [{"token": f"token_id:{one}", "logprob": -0.5} for one in (7, 8)]
    told = streamed(
        "chat", chunk({"content": "x"}, logprobs={"content": rows}, finish_reason="stop")
    )
    assert told.reading().token_ids == (7, 8)


def test_logprobs_of_another_number_of_tokens_are_of_no_token():
    """A token row of them would give each token the probability of its neighbour."""
    rows = [{"token": "a", "logprob": -0.5}]
    told = streamed(
        "vllm",
        chunk({"content": "x"}, token_ids=[7, 2], logprobs={"content": rows}, finish_reason="stop"),
    )
    assert (told.reading().token_ids, told.reading().logprobs) == ((7, 2), None)
    without_ids = streamed(
        "chat", chunk({"content": "x"}, logprobs={"content": rows}, finish_reason="stop")
    )
    assert without_ids.reading().logprobs == (-0.5,)


def test_an_error_in_a_stream_ends_it():
    error = {"code": 502, "message": "Provider disconnected", "metadata": {"raw": "upstream"}}
    broken = streamed(
        "openrouter", chunk({"content": "a"}), {**chunk(finish_reason="error"), "error": error}
    )
    assert broken.over
    assert broken.reading().error.status == 502
    assert "upstream" in broken.reading().error.message
    in_choice = streamed(
        "openrouter", chunk({"content": "a"}, error={"code": 429, "message": "limit"})
    )
    assert in_choice.reading().error.status == 429


ANTHROPIC_EVENTS = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "model": "claude",
            "usage": {"input_tokens": 12, "output_tokens": 1},
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": ""},
    },
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Hm"},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "s"},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "some_new_event"},
    {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def test_a_stream_of_anthropic_is_put_together():
    found = streamed("anthropic", *ANTHROPIC_EVENTS)
    told = found.reading()
    assert (told.text, told.reasoning, told.reasoning_field) == ("Hello", "Hm", "thinking")
    assert (told.usage.input, told.usage.output) == (12, 9)
    assert (told.finish_reason, told.refused, told.complete, found.over) == (
        "refusal",
        True,
        True,
        True,
    )


def test_an_error_event_of_anthropic_ends_the_stream():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    found = streamed("anthropic", *ANTHROPIC_EVENTS[:8], error)
    assert (found.over, found.reading().error.kind) == (True, "overloaded_error")
    assert found.reading().text == "Hel"


@given(st.integers(0, len(ANTHROPIC_EVENTS) - 3))
def test_a_cut_stream_is_incomplete(count):
    assert not streamed("anthropic", *ANTHROPIC_EVENTS[:count]).reading().complete


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        ("chat", ["[DONE]"]),
        (
            "chat",
            [
                {"id": "c-1", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 4}},
                "[DONE]",
            ],
        ),
        ("chat", [{"choices": [{"index": 0, "finish_reason": "stop"}]}, "[DONE]"]),
        ("anthropic", [{"type": "message_stop"}]),
    ],
)
def test_a_stream_without_an_answer_is_no_empty_answer(dialect, events):
    """An empty answer is the model's failure, and scored."""
    assert not streamed(dialect, *events).reading().complete


def test_an_event_named_error_is_one():
    assembly = dialects.find("chat").assembly()
    assembly.feed(Event(data='{"message": "worker died", "code": 500}', name="error"))
    assert (assembly.over, assembly.reading().error.message) == (True, "worker died")


# the Responses API
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "m-1",
    "error": None,
    "incomplete_details": None,
    "output": [
        {
            "type": "reasoning",
            "summary": [
                {"type": "summary_text", "text": "One."},
                {"type": "summary_text", "text": "Two."},
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "Hello",
                    "logprobs": [{"token": "Hello", "logprob": -0.5}],
                }
            ],
        },
        {"type": "web_search_call", "id": "ws_1"},
    ],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
    },
}


RESPONSE_EVENTS = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.reasoning_summary_text.delta", "delta": "One."},
    {"type": "response.output_text.delta", "delta": "Hel"},
    {"type": "response.output_text.delta", "delta": "lo"},
    {"type": "response.output_text.done", "text": "Hello"},
    {"type": "response.completed", "response": RESPONSE},
]


def test_a_request_to_the_responses_api():
    sent = body("responses", replace(REQUEST, stop=()))
    assert sent["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    assert (sent["max_output_tokens"], sent["store"], sent["stream"]) == (64, False, True)
    assert sent["include"] == ["message.output_text.logprobs"]
    assert not {"seed", "stop", "top_k", "messages", "max_tokens"} & set(sent)
    with pytest.raises(RequestError, match="stop: expected none"):
        body("responses")


def test_a_response_is_read_whole_and_streamed_alike():
    found = read("responses", RESPONSE)
    assert (found.text, found.reasoning, found.reasoning_field) == (
        "Hello",
        "One.\nTwo.",
        "summary",
    )
    assert (found.finish_reason, found.logprobs, found.complete) == ("completed", (-0.5,), True)
    usage = found.usage
    assert (usage.input, usage.cached_input, usage.output, usage.reasoning, usage.source) == (
        10,
        4,
        5,
        3,
        "reported",
    )
    assembly = streamed("responses", *RESPONSE_EVENTS)
    assert (assembly.over, assembly.length, assembly.reading()) == (True, 9, found)


@pytest.mark.parametrize(
    ("change", "end", "refused"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            False,
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
            False,
        ),
        (
            {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]},
            "refused",
            True,
        ),
    ],
)
def test_the_end_of_a_response_has_its_reason(change, end, refused):
    found = read("responses", {**RESPONSE, **change})
    assert (finish.normal(found.finish_reason, refused=found.refused), found.refused) == (
        end,
        refused,
    )


def test_a_failed_response_is_an_error():
    failed = {
        **RESPONSE,
        "status": "failed",
        "error": {"code": "server_error", "message": "boom"},
        "output": [],
    }
    assert read("responses", failed).error.message == "boom"
    found = streamed(
        "responses", *RESPONSE_EVENTS[:3], {"type": "response.failed", "response": failed}
    )
    assert (found.over, found.reading().error.kind, found.reading().text) == (
        True,
        "server_error",
        "Hel",
    )
    stated = streamed(
        "responses", {"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}
    )
    assert (stated.over, stated.reading().error.message) == (True, "slow down")


@given(st.integers(0, len(RESPONSE_EVENTS) - 1))
def test_a_cut_response_is_incomplete(count):
    assert not streamed("responses", *RESPONSE_EVENTS[:count]).reading().complete
