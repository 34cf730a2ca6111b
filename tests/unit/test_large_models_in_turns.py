"""Evaluations of large models in flight at once, on made-up devices of which each model fills
a quarter or more: level 4 of KernelBench with eight slots.
"""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.job import Job
from workers.protocol import problem_spec
from workers.referee import admission, evaluate
from workers.referee.cancellation import Cancellation
from workers.referee.host import memory_budget
from workers.referee.host.device import CONTEXT_BYTES, open_device
from workers.referee.host.memory_budget import MemoryBudget
from workers.referee.progress import Progress
from workers.referee.session import memory_needs, setup
from workers.referee.session.stage_timer import Stages

JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")
RUNNING_S = 0.02
SLOTS = 8


def _model(parameters: int) -> problem_spec.ProblemSpec:
    """A causal language model in fp32 on 32 x 256 tokens, with the memory that a call takes."""
    ids: dict[str, Any] = {"kind": "tensor", "shape": [32, 256], "dtype": "int64", "stride": None}
    weights = {**ids, "shape": [parameters], "dtype": "float32"}
    logits = {**ids, "shape": [32, 256, 50257], "dtype": "float32"}
    return problem_spec.ProblemSpec(
        inputs={"kind": "list", "items": [ids]},
        outputs=logits,
        init={"kind": "list", "items": []},
        parameters={"weights": weights},
        training=False,
        truth="fp64",
        mutated_inputs=(),
        output_constant=False,
        peaks=problem_spec.Peaks(draw_bytes=1 << 20, call_bytes=3 << 30, truth_bytes=6 << 30),
    )


MODELS = {"neo": _model(2_650_000_000), "opt": _model(1_320_000_000), "mlp": _model(670_000_000)}


class _Gpu:
    """Memory of a device, by the name of its owner."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.described = 0
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()

    def free_bytes(self) -> int:
        with self._lock:
            return self.total_bytes - sum(self._used.values())

    def take(self, name: str, size: int) -> bool:
        """Take memory; returns whether so much was free."""
        with self._lock:
            self._used[name] = size
            return sum(self._used.values()) <= self.total_bytes

    def release(self, name: str) -> None:
        with self._lock:
            del self._used[name]

    def rest(self, name: str) -> None:
        """Leave a session's memory with an idle process."""
        with self._lock:
            self._used[f"idle {name}"] = self._used.pop(name)

    def end_idle(self) -> None:
        with self._lock:
            self._used = {
                name: size for name, size in self._used.items() if not name.startswith("idle")
            }


def _session(gpu: _Gpu, name: str, spec: problem_spec.ProblemSpec) -> Any:
    def describe(*_: Any, **__: Any) -> problem_spec.ProblemSpec:
        gpu.described += 1
        gpu.take(name, memory_needs.resident(spec))
        return spec

    return SimpleNamespace(
        name=name,
        handle=SimpleNamespace(described=set(), estimates={}),
        estimate_bytes=lambda *_: memory_needs.resident(spec) + (4 << 30),
        describe=describe,
        share_arena=lambda *_: None,
    )


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> tuple[Any, _Gpu]:
    """Resources of a device of so many GiB, less the contexts."""
    properties = SimpleNamespace(total_memory=int(request.param * (1 << 30)))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    device = open_device("h100", 0, SLOTS)
    processes = device.spares + device.reference_spares + 2 * SLOTS + 1
    gpu = _Gpu(properties.total_memory - processes * CONTEXT_BYTES)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (gpu.free_bytes(), gpu.total_bytes))
    lock = SimpleNamespace(
        shared=nullcontext,
        shared_at_first=nullcontext,
        uncharged=SimpleNamespace(waiting=nullcontext),
        favoured=nullcontext,
    )
    resources: Any = SimpleNamespace(
        device=device,
        device_lock=lock,
        memory_budget=MemoryBudget(device.room_bytes, device.free_bytes, gpu.end_idle),
        references=None,
        bytes_per_s=3e12,
        trim=lambda _: None,
    )
    numbers = iter(range(1000))
    sessions = lambda job, _: _session(  # noqa: E731
        gpu, f"{job.entry_point} {next(numbers)}", MODELS[job.entry_point]
    )
    monkeypatch.setattr(setup, "open_reference_session", sessions)
    monkeypatch.setattr(setup, "close_reference_session", lambda _, each: gpu.rest(each.name))
    return resources, gpu


def _evaluate(resources: Any, gpu: _Gpu, model: str) -> bool:
    """Prepare an evaluation, take the memory that was reserved for it, and give it back; returns
    whether all was there.
    """
    job = replace(JOB, entry_point=model)
    progress = Progress(
        job=job,
        resources=resources,
        seed=bytes(32),
        stages=Stages(),
        cancellation=Cancellation(),
        shares_memory=True,
    )
    with ExitStack() as memory, ExitStack() as sessions:
        reference: Any
        reference, spec = evaluate._prepared(progress, memory, sessions, evaluate.Room.ONCE)
        _, need_bytes = evaluate._planned(progress, spec)
        more = min(need_bytes, resources.device.room_bytes) - memory_needs.resident(spec)
        there = gpu.take(f"more of {reference.name}", more)
        time.sleep(RUNNING_S)
        gpu.release(f"more of {reference.name}")
    return there


@pytest.mark.parametrize("made_up", [79.1, 139.8], indirect=True)
@pytest.mark.parametrize(
    "models", [["neo"] * 8, ["neo", "opt"] * 4, ["opt"] * 8, ["mlp"] * 8, ["neo", "mlp"] * 4]
)
def test_models_that_wait_for_memory_do_not_fill_the_device(
    made_up: tuple[Any, _Gpu], models: list[str]
) -> None:
    resources, gpu = made_up
    with ThreadPoolExecutor(SLOTS) as pool:
        found = list(pool.map(lambda model: _evaluate(resources, gpu, model), models))
    assert found == [True] * len(models)
    assert gpu.described <= 2 * len(models)


@pytest.mark.parametrize("made_up", [139.8], indirect=True)
def test_a_model_that_fits_beside_what_is_there_is_made_once(made_up: tuple[Any, _Gpu]) -> None:
    resources, gpu = made_up
    assert _evaluate(resources, gpu, "opt")
    assert gpu.described == 1


@pytest.mark.parametrize("made_up", [139.8], indirect=True)
def test_a_model_of_8_gb_stays_while_its_evaluation_waits(made_up: tuple[Any, _Gpu]) -> None:
    resources, gpu = made_up
    with ThreadPoolExecutor(SLOTS) as pool:
        assert all(pool.map(lambda model: _evaluate(resources, gpu, model), ["mlp"] * 8))
    assert gpu.described == 8


@pytest.mark.parametrize("made_up", [79.1], indirect=True)
def test_models_that_stay_while_they_wait_lack_memory(
    made_up: tuple[Any, _Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device is one on which the rule matters."""
    monkeypatch.setattr(admission, "KEPT_MODEL_SHARE", 1)
    monkeypatch.setattr(memory_budget, "SETTLING_S", 0.3)
    resources, gpu = made_up
    with ThreadPoolExecutor(SLOTS) as pool:
        found = list(pool.map(lambda model: _evaluate(resources, gpu, model), ["neo"] * 3))
    assert not all(found)
