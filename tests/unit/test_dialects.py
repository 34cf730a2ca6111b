"""Requests to each kind of model server, and reading of whole answers."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.request import RequestError
from app.endpoints import dialects, finish
from app.endpoints.dialects.base import MalformedAnswerError
from tests.unit.dialects import REQUEST, body, chunk, endpoint, read, streamed


# requests
def test_common_parameters_are_sent_as_they_are():
    sent = body("chat")
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    assert (sent["max_tokens"], sent["temperature"], sent["seed"], sent["stop"]) == (
        64,
        0.7,
        5,
        ["END"],
    )
    assert sent["stream_options"] == {"include_usage": True}
    assert "top_p" not in sent


@pytest.mark.parametrize(
    ("dialect", "present", "absent"),
    [
        ("openai", {"max_completion_tokens": 64}, {"top_k", "return_token_ids", "max_tokens"}),
        ("vllm", {"return_token_ids": True, "logprobs": True, "top_k": 20}, {"max_tokens"}),
        (
            "sglang",
            {"return_meta_info": True, "stream": False, "rid": "call-1"},
            {"stream_options"},
        ),
        (
            "openrouter",
            {"usage": {"include": True}, "provider": {"require_parameters": True}},
            set(),
        ),
        (
            "anthropic",
            {"system": "Be brief.", "stop_sequences": ["END"], "max_tokens": 64},
            {"seed", "logprobs"},
        ),
    ],
)
def test_each_dialect_has_its_parameters(dialect, present, absent):
    sent = body(dialect)
    assert {name: sent.get(name) for name in present} == present
    assert not absent & set(sent)


def test_sglang_streams_where_no_ids_are_wanted():
    assert body("sglang", replace(REQUEST, want_token_ids=False))["stream"] is True


def test_extras_reach_the_body_and_never_replace_a_field():
    request = replace(REQUEST, extra={"reasoning_effort": "high"})
    assert (
        body("vllm", request, extra={"chat_template_kwargs": {"thinking": False}})[
            "reasoning_effort"
        ]
        == "high"
    )
    with pytest.raises(RequestError, match="messages"):
        body("vllm", replace(REQUEST, extra={"messages": []}))
    with pytest.raises(RequestError, match="seed"):
        body("anthropic", replace(REQUEST, extra={"seed": 1}))


@pytest.mark.parametrize("dialect", dialects.BUILTIN)
def test_keys_travel_in_headers_only(dialect):
    spoken = dialects.find(dialect)
    assert "secret" in "".join(spoken.authorisation("secret").values())
    assert "secret" not in repr(spoken.build(replace(REQUEST, stop=()), endpoint(dialect)))


def test_an_unknown_dialect_is_named():
    with pytest.raises(
        ValueError, match=r"unknown dialect 'gemini'; expected one of anthropic, chat"
    ):
        dialects.find("gemini")


# whole bodies
VLLM_BODY = {
    "id": "chatcmpl-9f",
    "object": "chat.completion",
    "created": 1_760_000_000,
    "model": "Qwen/Qwen3-8B",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello",
                "refusal": None,
                "reasoning": "Greet.",
            },
            "logprobs": {
                "content": [
                    {"token": "Hel", "logprob": -0.25, "bytes": [72], "top_logprobs": []},
                    {"token": "lo", "logprob": -9999.0, "bytes": [108], "top_logprobs": []},
                ]
            },
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": [9707, 151_645],
        }
    ],
    "system_fingerprint": "vllm-0.12",
    "usage": {
        "prompt_tokens": 3,
        "total_tokens": 5,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 2},
    },
    "prompt_logprobs": None,
    "prompt_token_ids": [1, 2, 3],
}


def test_a_body_of_vllm_is_read():
    found = read("vllm", VLLM_BODY)
    assert (found.text, found.reasoning, found.reasoning_field) == ("Hello", "Greet.", "reasoning")
    assert (found.prompt_token_ids, found.token_ids) == ((1, 2, 3), (9707, 151_645))
    assert found.logprobs == (-0.25, -9999.0)
    assert (found.usage.input, found.usage.cached_input, found.usage.output) == (3, 2, 2)
    assert (found.provider_id, found.model, found.fingerprint) == (
        "chatcmpl-9f",
        "Qwen/Qwen3-8B",
        "vllm-0.12",
    )


def test_a_body_of_sglang_is_read():
    found = read(
        "sglang",
        {
            "id": "a1",
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hi", "reasoning_content": "Think"},
                    "finish_reason": "stop",
                    "matched_stop": 2,
                    "prompt_token_ids": [5, 6],
                    "token_ids": [7, 2],
                    "meta_info": {
                        "output_token_logprobs": [[-0.5, 7, None], [-1.5, 2, None]],
                        "weight_version": "step-40",
                    },
                }
            ],
            "usage": {"prompt_tokens": 2, "completion_tokens": 2, "reasoning_tokens": 1},
        },
    )
    assert (found.token_ids, found.logprobs) == ((7, 2), (-0.5, -1.5))
    assert (found.prompt_token_ids, found.reasoning_field) == ((5, 6), "reasoning_content")
    assert (found.usage.reasoning, found.weight_version) == (1, "step-40")


def test_the_cost_that_openrouter_reports_is_read():
    found = read(
        "openrouter",
        {
            "id": "gen-1",
            "provider": "Fireworks",
            "model": "deepseek/deepseek-v3.2",
            "choices": [
                {
                    "finish_reason": "stop",
                    "native_finish_reason": "stop",
                    "message": {
                        "role": "assistant",
                        "content": "Hi",
                        "reasoning": "R",
                        "reasoning_details": [{"type": "reasoning.text", "text": "R"}],
                    },
                }
            ],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 4,
                "cost": 0.00014,
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
        },
    )
    assert (found.cost_usd, found.reasoning, found.usage.reasoning) == (0.00014, "R", 2)


def test_a_body_of_anthropic_is_read():
    found = read(
        "anthropic",
        {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "Hello"},
                {"type": "text", "text": " there"},
            ],
            "stop_reason": "max_tokens",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 5,
                "cache_read_input_tokens": 100,
                "output_tokens": 7,
            },
        },
    )
    assert (found.text, found.reasoning, found.finish_reason) == (
        "Hello there",
        "Hm.",
        "max_tokens",
    )
    assert (found.usage.input, found.usage.cached_input, found.usage.output) == (115, 100, 7)


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": None, "reasoning_content": "only"}, "", "only"),
        ({"content": ""}, "", None),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", None),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
                    {"text": "x"},
                ]
            },
            "x",
            "t",
        ),
        ({"content": "<think>a</think>b"}, "<think>a</think>b", None),
        ({"content": "\ud800x\0"}, "\ufffdx\0", None),
        (
            {
                "content": "x",
                "reasoning_details": [{"type": "reasoning.text", "text": "t"}, {"data": "?"}],
            },
            "x",
            "t",
        ),
        ({"content": "x", "reasoning": "t", "reasoning_details": [{"text": "t"}]}, "x", "t"),
    ],
)
def test_contents_of_all_shapes_are_read(message, text, reasoning):
    found = read("chat", {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (found.text, found.reasoning) == (text, reasoning)


def test_a_refusal_is_an_answer():
    told = {
        "choices": [{"message": {"content": None, "refusal": "I cannot."}, "finish_reason": "stop"}]
    }
    found = read("openai", told)
    assert (found.text, found.refused) == ("I cannot.", True)


@pytest.mark.parametrize(
    ("told", "end"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("completed", "stop"),
        ("max_output_tokens", "length"),
        ("abort", "abort"),
        ("failed", "error"),
        ("insufficient_system_resource", "error"),
        ("network_error", "error"),
        ("sensitive", "content_filter"),
        ("eos_token", "stop"),
        ("repetition", "unknown"),
        (None, "unknown"),
    ],
)
def test_finish_reasons_have_one_vocabulary(told, end):
    assert finish.normal(told) == end


def test_an_unknown_finish_reason_is_kept():
    assert (
        streamed("vllm", chunk(finish_reason="repetition")).reading().finish_reason == "repetition"
    )


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": None, "finish_reason": "stop"}]},
        {"choices": [{"text": "of the older API", "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {}, "token_ids": ["a"]}]},
        {"choices": [{"message": {}, "logprobs": {"content": [{"logprob": "x"}]}}]},
        {"choices": [{"message": {}, "meta_info": {"output_token_logprobs": [[1]]}}]},
    ],
)
def test_a_body_of_another_shape_is_malformed(told):
    with pytest.raises(MalformedAnswerError):
        read("sglang", told)


OUTPUT = ("output", "response", "summary")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "usage",
                    "error",
                    "type",
                    "index",
                    "text",
                    "output",
                    "summary",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("dialect", dialects.BUILTIN)
@given(
    told=st.dictionaries(
        st.sampled_from(["choices", "error", "usage", "type", "content", *OUTPUT]), JSON
    )
)
def test_any_json_is_read_or_malformed(dialect, told):
    for act in (lambda: read(dialect, told), lambda: streamed(dialect, told).reading()):
        with contextlib.suppress(MalformedAnswerError):
            act()
