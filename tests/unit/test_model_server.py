"""Recorded token ids and logprobs against a model's own (tests.bench.model_server);
needs transformers.
"""

from __future__ import annotations

import argparse

import pytest

pytest.importorskip("transformers")

from app.domain.collection.call import EndpointConfig
from tests.bench import model_server
from tests.bench.rl.chat_model import ChatModel
from tests.bench.rl.chat_server import NAME, serving

GIVEN = argparse.Namespace(rollouts=2, tokens=12, temperature=0.7, dtype="float32", most=1e-4)


@pytest.fixture(scope="module")
def chat():
    return ChatModel(device="cpu", width=32, depth=2)


@pytest.mark.parametrize("stream", [True, False])
def test_records_of_the_client_are_the_models_own(chat, stream):
    with serving(chat) as url:
        endpoint = EndpointConfig(
            name="local", base_url=url, dialect="vllm", model=NAME, stream=stream
        )
        found = model_server._checked(GIVEN, chat, endpoint)
    assert found["equal"], found
    assert found["rows_of_all_turns"] == 2
    assert found["tokens_compared"] > 2
    assert found["probe"]["logprobs_mode"] == "processed"


def test_a_wrong_logprob_is_seen(chat):
    ids = chat.prompt_ids([{"role": "user", "content": "hello"}])
    row = {"ids": [*ids, 40, 41], "mask": [0] * len(ids) + [1, 1], "turn_ends": [1, 2]}
    own = [0.0, *chat.recomputed(row["ids"], 0.7)]
    rows = [{**row, "logprobs": own}, {**row, "logprobs": [*own[:-1], own[-1] - 0.01]}]
    assert model_server._compared(GIVEN, chat, rows[:1] * 2)["equal"]
    assert not model_server._compared(GIVEN, chat, rows)["equal"]
