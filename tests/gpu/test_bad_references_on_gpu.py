"""References on a GPU that are too large, never end, or take all memory, and models of level 4:
each ends by itself, and evaluations beside it are not hurt.

    pytest -m gpu --noconftest tests/gpu/test_bad_references_on_gpu.py
"""

import importlib.util
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.domain import problem_check
from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

TIMEOUT_S = 12.0
"""For references here, in place of a minute."""

MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {forward}
def get_inputs(): return [torch.randn({shape})]
# {number}
"""
ENDLESS = "while True: y = x.neg()"
HOARDING = "kept = []\n        while True: kept.append(torch.ones(1 << 28, device=x.device))"

LEVEL_4 = """
import torch
from transformers import AutoConfig, AutoModelForCausalLM
class Model(torch.nn.Module):
    def __init__(self, name, config):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(name, config=config)
    def forward(self, x):
        return self.model(x).logits
name = "gpt2"
config = AutoConfig.from_pretrained(name)
def get_inputs(): return [torch.randint(0, config.vocab_size, (2, 64))]
def get_init_inputs(): return [name, config]
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from workers.referee.resources import Resources

    with Resources(
        "gpu", "test", slots=4, lock_folder=Path(tmp_path_factory.mktemp("leases"))
    ) as started:
        started.wait_ready()
        yield started


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.referee import admission, evaluate
    from workers.referee.session import setup

    for module in (admission, evaluate, setup):
        monkeypatch.setattr(module, "REFERENCE_TIMEOUT_S", TIMEOUT_S)


def model(
    forward: str = "return torch.softmax(x, 1)", shape: str = "256, 1024", number: int = 0
) -> bytes:
    return MODEL.format(forward=forward, shape=shape, number=number).encode()


def against_itself(host: Any, source: bytes) -> Evaluation:
    from workers.referee.measure import measure

    job = Job(
        job_id=uuid4(),
        reference=source,
        candidate=problem_check.identity(source),
        backend=problem_check.BACKEND,
        options=problem_check.options(),
    )
    return measure(job, host)[0]


def test_a_problem_larger_than_the_device_is_named_within_seconds(host: Any) -> None:
    rows = 3 * torch.cuda.get_device_properties(0).total_memory // (2 * 4 * 1024)
    began = time.monotonic()
    found = against_itself(host, model(shape=f"{rows}, 1024"))
    assert time.monotonic() - began < TIMEOUT_S
    assert found.status is Status.INVALID
    assert found.error is not None
    assert found.error.kind == problem_check.TOO_LARGE, found.error
    assert against_itself(host, model()).status is Status.PASSED


@pytest.mark.parametrize("forward", [ENDLESS, HOARDING], ids=["endless", "memory"])
def test_evaluations_beside_a_reference_without_end_are_not_hurt(host: Any, forward: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        bad = pool.submit(against_itself, host, model(forward))
        time.sleep(0.5)
        began = time.monotonic()
        good = list(pool.map(lambda number: against_itself(host, model(number=number)), range(6)))
        took_s = time.monotonic() - began
        found = bad.result()
    assert found.status is Status.INVALID, found.error
    assert [(each.status, each.error) for each in good] == [(Status.PASSED, None)] * 6
    assert took_s < TIMEOUT_S + 10.0


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
def test_a_model_of_level_4_is_evaluated_against_itself(host: Any) -> None:
    found = against_itself(host, LEVEL_4.encode())
    assert found.status is Status.PASSED, found.error
    assert found.timing is not None
    assert found.timing.ci_low <= 1 <= found.timing.ci_high
