"""Token ids and logprobs from a model's sampler to the record of a call, against a
real model with random weights.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.domain.collection.call import End, EndpointConfig, ModelRequest
from app.domain.trajectory import Message
from app.endpoints import caller, probe
from tests.integration.tiny_model import Network, prompt_of

MESSAGES = (Message(role="user", content="Write a kernel, grüße."),)


@contextmanager
def serving(mode: str) -> Iterator[EndpointConfig]:
    command = [sys.executable, str(Path(__file__).parent / "tiny_model.py"), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip()
            yield EndpointConfig(
                name="tiny", base_url=address, dialect="vllm", model="tiny", first_token_s=60
            )
        finally:
            server.kill()


@pytest.fixture(scope="module", params=["raw", "processed"])
def served(request) -> Iterator[tuple[str, EndpointConfig]]:
    with serving(request.param) as endpoint:
        yield request.param, endpoint


def test_ids_and_logprobs_are_the_models_own(served):
    mode, endpoint = served
    network = Network()
    for seed, temperature in ((1, 1.0), (2, 0.7), (3, 1.3)):
        answer = caller.call(
            endpoint,
            ModelRequest(
                model="tiny",
                messages=MESSAGES,
                max_tokens=200,
                temperature=temperature,
                seed=seed,
                want_token_ids=True,
                want_logprobs=True,
            ),
        )
        assert answer.error is None
        prompt, ids = list(answer.prompt_token_ids), list(answer.token_ids)
        assert prompt == prompt_of([vars(one) for one in MESSAGES])
        assert len(ids) == len(answer.logprobs) == answer.usage.output
        assert answer.text == "".join(chr(one) for one in ids if one < 256)
        assert answer.end is (End.STOP if ids[-1] == 256 else End.LENGTH)
        own = network.logprobs(prompt, ids, temperature if mode == "processed" else 1.0)
        assert list(answer.logprobs) == pytest.approx(own, abs=1e-4)


def test_the_probe_tells_raw_from_processed_logprobs(served):
    mode, endpoint = served
    found = probe.probe(endpoint)
    assert (found.logprobs_mode, found.seed, found.token_ids) == (mode, True, True)
    assert any("raw" in one for one in found.warnings) == (mode == "raw")
