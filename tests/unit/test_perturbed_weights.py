"""Weights that do not show, and candidates that are right only while weights stay unchanged.

Both sides' shims run here, in this process, on sources of the test's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import torch

from app.domain.evaluation import FreshWeights
from app.domain.job import Job
from tests.unit.shims_here import Process
from workers.protocol import control_channel, layout, problem_spec
from workers.referee.host.device_lock import DeviceLock
from workers.referee.probes import perturbed_weights
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import Deadline
from workers.referee.session.setup import init_seed, load
from workers.shims import candidate, reference

SEED = bytes(32)

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 8)
        self.unused = nn.Parameter(torch.ones(8))

    def forward(self, x):
        GUARD
        return self.norm(self.linear(x))

def get_inputs():
    return [torch.randn(4, 8)]
"""

CANDIDATE = """
import torch
from torch import nn
from torch.nn.functional import layer_norm

KEPT, BUILT = {}, []

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        BUILT.append(self)
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 8)
        self.folded = None
        INIT

    def forward(self, x):
        y = self.linear(x)
        RETURN
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EVALUATION_DEVICE", "cpu")
    monkeypatch.setitem(sys.modules, "reference", sys)  # so that it is put back afterwards
    with torch.random.fork_rng():
        yield


class Benchmark:
    """Two sides with parameters, as after the last timed block."""

    def __init__(
        self,
        folder: Path,
        *,
        guard: str = "pass",
        init: str = "pass",
        returned: str,
        problem: str = PROBLEM,
        source: str = CANDIDATE,
    ) -> None:
        self.folder = folder
        self.raised, self.discarded = list[ProcessHandle](), list[ProcessHandle]()
        self.process = Process(reference.Shim(self._scratch("reference")))
        handle: Any = ProcessHandle(self.process, torch.device("cpu"))  # type: ignore[arg-type]
        handle.load_reference(problem.replace("GUARD", guard).encode(), "Model", 1)
        session = Session(handle, 1)
        self.spec = session.describe(init_seed(SEED), 1)
        arena = problem_spec.arena(self.spec, 2)
        session.share_arena(arena, arena.reference_bytes, 1)
        self.device_lock = DeviceLock(folder, "test")
        code = source.replace("INIT", init).replace("RETURN", returned).encode()
        self.job = Job(job_id=uuid4(), reference=b"", candidate=code, backend="torch")
        deadline = Deadline(60, 60)
        own = Session(self.candidate(0))
        load(own, self.job, session, self.spec, SEED, deadline, self.device_lock)
        self.runner = CallRunner(session, own, self.spec, SEED, deadline, self.device_lock)
        self.runner.try_calls(self.runner.draw(1))

    def _scratch(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir()
        return path

    def candidate(self, memory_bytes: int) -> ProcessHandle:
        """A candidate's process; see CandidateProcesses."""
        scratch = self._scratch(f"candidate{len(self.raised)}")
        handle: Any = ProcessHandle(Process(candidate.Shim(scratch)), torch.device("cpu"))  # type: ignore[arg-type]
        self.raised.append(handle)
        return handle

    def reweigh(self, calls: int = 0) -> FreshWeights:
        """The check as a whole, after so many further calls."""
        host: Any = SimpleNamespace(
            device_lock=self.device_lock,
            candidates=SimpleNamespace(take=self.candidate, retire=lambda handle: None),
            references=SimpleNamespace(discard=self.discarded.append),
        )
        cancellation: Any = SimpleNamespace(requested=False, set_process=lambda process: None)
        context = EvaluationContext(
            job=self.job,
            resources=host,
            runner=self.runner,
            spec=self.spec,
            seed=SEED,
            cancellation=cancellation,
        )
        return perturbed_weights.check(context, None, calls)


NO_BIAS = "del self.norm.bias; self.norm.bias = None"
COPIED = "[t.clone() for t in (self.norm.weight, self.norm.bias)]"
WHOLE = "return self.norm(y)"
WITHOUT = "return layer_norm(y, (8,))"
LATER = "self.calls += 1; return self.norm(y) if self.calls < 6 else layer_norm(y, (8,))"


@pytest.mark.parametrize(
    ("init", "asked"),
    [
        ("pass", ("norm.weight", "norm.bias")),
        # The model has no place for the bias, so that it could never be trained: it
        # is asked for all the same.
        (NO_BIAS, ("norm.weight", "norm.bias")),
        # The bias may be packed into the other parameter: it is not asked for.
        (f"{NO_BIAS}; self.packed = nn.Parameter(torch.randn(16))", ("norm.weight",)),
    ],
)
def test_the_spec_names_those_that_matter_and_the_candidate_those_it_has(
    tmp_path: Path, init: str, asked: tuple[str, ...]
) -> None:
    benchmark = Benchmark(tmp_path, init=init, returned=WHOLE)
    assert benchmark.spec.constants == ("norm.weight", "norm.bias")
    assert benchmark.spec.insensitive_to == ("unused",)
    assert perturbed_weights.constant_names(benchmark.spec, benchmark.runner.candidate) == asked


@pytest.mark.parametrize(
    ("init", "returned"),
    [
        ("pass", WHOLE),
        (
            "pass",
            (
                f"self.folded = self.folded or {COPIED}\n        return layer_norm(y, (8,),"
                " *self.folded)"
            ),
        ),
        ("self.compile = None", WHOLE),  # a word that stands for a long first call
    ],
)
def test_a_candidate_that_uses_its_weights_is_right_with_others(
    tmp_path: Path, init: str, returned: str
) -> None:
    benchmark = Benchmark(tmp_path, init=init, returned=returned)
    seen = benchmark.reweigh()
    assert seen.still_correct is True
    assert not seen.second_process
    assert seen.names == ("norm.weight", "norm.bias")
    assert [each.ok for each in seen.outputs] == [True]
    assert len(benchmark.raised) == 1
    assert not benchmark.runner.failed


@pytest.mark.parametrize(
    ("init", "returned"),
    [
        ("pass", WITHOUT),
        ("pass", "return layer_norm(y, (8,), self.norm.weight)"),
        ("pass", "return layer_norm(y, (8,), None, self.norm.bias)"),
        (f"self.early = {COPIED}", "return layer_norm(y, (8,), *self.early)"),
        ("if len(BUILT) > 1: raise EOFError", WITHOUT),
    ],
)
def test_a_candidate_that_leaves_a_weight_out_is_wrong_in_two_processes(
    tmp_path: Path, init: str, returned: str
) -> None:
    benchmark = Benchmark(tmp_path, init=init, returned=returned)
    seen = benchmark.reweigh()
    assert seen.still_correct is False
    assert seen.second_process
    assert len(benchmark.raised) == 2
    assert [output.rel_l2 is not None and output.rel_l2 > 0.05 for output in seen.outputs] == [True]


def test_a_new_process_decides_where_a_new_model_is_wrong(tmp_path: Path) -> None:
    kept = "w = KEPT.setdefault(8, (self.norm.weight.clone(), self.norm.bias.clone()))"
    seen = Benchmark(tmp_path, returned=f"{kept}\n        return layer_norm(y, (8,), *w)").reweigh()
    assert seen.still_correct is True
    assert seen.second_process


def test_a_candidate_that_refuses_other_weights_fails(tmp_path: Path) -> None:
    seen = Benchmark(
        tmp_path, returned=f"assert not self.norm.bias.any(), 'not mine'\n        {WHOLE}"
    ).reweigh()
    assert seen.still_correct is False
    assert "not mine" in seen.reason
    assert seen.outputs == ()


@pytest.mark.parametrize(
    ("guard", "reason", "discards"),
    [
        ("x = x / (not self.norm.bias.any())", "not finite", False),
        (
            "assert float(self.norm.bias.abs().max()) in (0.0,) or self.norm.bias.norm() > 2",
            "reference fails",
            True,
        ),
    ],
)
def test_a_reference_that_does_not_bear_them_says_nothing(
    tmp_path: Path, guard: str, reason: str, discards: bool
) -> None:
    benchmark = Benchmark(tmp_path, guard=guard, returned=WITHOUT)
    seen = benchmark.reweigh()
    assert seen.still_correct is None
    assert reason in seen.reason
    assert bool(benchmark.discarded) is discards
    assert len(benchmark.raised) == 1


def test_nothing_but_these_is_changed_and_both_sides_get_the_same(tmp_path: Path) -> None:
    benchmark = Benchmark(tmp_path, returned=WHOLE)
    runner, before = benchmark.runner, benchmark.runner.reference.prefix.clone()
    benchmark.reweigh()
    region, after = runner.arena.parameters, runner.reference.prefix
    assert torch.equal(after, runner.candidate.prefix)
    differs = {
        name: not torch.equal(
            before[at : at + layout.size_of(leaf)], after[at : at + layout.size_of(leaf)]
        )
        for name, at, leaf in zip(
            benchmark.spec.parameters, region.offsets, region.leaves, strict=True
        )
    }
    assert {name for name, changed in differs.items() if changed} == {"norm.weight", "norm.bias"}
    assert benchmark.process.asked.count(control_channel.Command.REFIT) == 1
    assert benchmark.process.asked.count(control_channel.Command.DESCRIBE) == 1


RECURRENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(RATE)

    def forward(self, x):
        keep, state = KEEP, torch.zeros_like(x[0])
        for row in x[FIRST:]:
            state = keep * state + (1 - keep) * row
        return state

def get_inputs():
    return [torch.randn(80, 8)]
"""


@pytest.mark.parametrize(
    ("rate", "keep"),
    [
        ("torch.zeros(8)", "torch.sigmoid(self.rate)"),
        ("torch.full((8,), 0.4)", "self.rate"),
        ("torch.zeros(8)", "torch.exp(-torch.exp(self.rate))"),
    ],
)
@pytest.mark.parametrize(("first", "right"), [(0, True), (40, False)])
def test_steps_that_a_recurrence_forgets_count_with_other_rates(
    tmp_path: Path, rate: str, keep: str, first: int, right: bool
) -> None:
    code = RECURRENCE.replace("RATE", rate).replace("KEEP", keep)
    benchmark = Benchmark(
        tmp_path,
        problem=code.replace("FIRST", "0"),
        source=code.replace("FIRST", str(first)).replace("Model", "ModelNew"),
        returned="",
    )
    assert benchmark.spec.recurrent == {"rate": None}
    assert benchmark.reweigh().still_correct is right


GATED = """
import torch
from torch import nn
from torch.nn.functional import normalize

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(GATE)
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        return torch.sigmoid(x) + (OPEN) * torch.tanh(self.mix(x))

def get_inputs():
    return [torch.randn(16, 8)]
"""
CLOSED, OPENED = "-torch.rand(8) - 0.1", "torch.rand(8) + 0.1"


FAR_BELOW, ONE_OPEN = "-8 * torch.rand(8) - 24", "torch.cat([torch.zeros(1), -torch.rand(7) - 20])"


@pytest.mark.parametrize(
    ("gate", "opening", "other", "right"),
    [
        (CLOSED, "self.gate.clamp(0.0, 1.0)", "0.0", False),
        (CLOSED, "torch.relu(self.gate)", "0.0", False),
        (CLOSED, "(self.gate > 0).float()", "0.0", False),
        (OPENED, "self.gate.abs()", "self.gate", False),
        (CLOSED, "torch.relu(self.gate)", "self.gate.clamp(min=0)", True),
        (OPENED, "self.gate.relu().sqrt() / self.gate.abs().sqrt()", "1.0", False),
        # Both signs give no number.
        (OPENED, "1 / torch.relu(self.gate)", "1 / self.gate", None),
        # No operator tells the signs apart.
        (OPENED, "self.gate", "self.gate.abs()", None),
        # Functions that vanish far below zero, for all gates or for some.
        (FAR_BELOW, "torch.sigmoid(self.gate)", "0.0", False),
        (FAR_BELOW, "torch.exp(self.gate)", "0.0", False),
        (ONE_OPEN, "torch.sigmoid(self.gate)", "0.5 * (torch.arange(8) == 0)", False),
        (ONE_OPEN, "torch.softmax(self.gate, 0)", "(torch.arange(8) == 0)", False),
        (FAR_BELOW, "torch.sigmoid(self.gate)", "1 / (1 + torch.exp(-self.gate))", True),
        (CLOSED, "torch.sigmoid(self.gate)", "1 / (1 + torch.exp(-self.gate))", None),
        # Limits of numbers that follow from weights.
        (OPENED, "self.gate.exp().clamp(max=100.0)", "self.gate.exp()", False),
        ("torch.tensor(2.6)", "self.gate.exp().clamp(max=100.0)", "self.gate.exp()", False),
        ("torch.tensor(2.6)", "self.gate.clamp(max=4.6).exp()", "self.gate.exp()", False),
        (OPENED, "self.gate.exp().clamp(max=100.0)", "self.gate.clamp(max=4.6051702).exp()", True),
        # Operators that change nothing.
        ("torch.randn(8) / 8", "self.gate.clamp(-2.0, 2.0)", "self.gate", False),
        ("normalize(torch.randn(8), dim=0)", "normalize(self.gate, dim=0)", "self.gate", False),
        ("torch.rand(8).softmax(0)", "self.gate / self.gate.sum()", "self.gate", False),
    ],
)
def test_gates_receive_values_that_operators_tell_apart(
    tmp_path: Path, gate: str, opening: str, other: str, right: bool | None
) -> None:
    code = GATED.replace("GATE", gate)
    benchmark = Benchmark(
        tmp_path,
        problem=code.replace("OPEN", opening),
        source=code.replace("OPEN", other).replace("Model", "ModelNew"),
        returned="",
    )
    assert set(benchmark.spec.telling) == (set() if right is None else {"gate"})
    if right is True:
        assert benchmark.reweigh().still_correct
    elif right is False:  # one number in a hundred stays below its limit
        assert any(benchmark.reweigh().still_correct is False for _ in range(3))


def test_weights_that_are_left_out_after_some_calls(tmp_path: Path) -> None:
    benchmark = Benchmark(tmp_path, init="self.calls = 0", returned=LATER)
    found = benchmark.reweigh(calls=20)
    assert (found.still_correct, found.second_process) == (False, True)


def test_further_calls_of_a_model_that_uses_its_weights(tmp_path: Path) -> None:
    benchmark = Benchmark(tmp_path, init="self.calls = 0", returned=f"self.calls += 1; {WHOLE}")
    found = benchmark.reweigh(calls=20)
    assert (found.still_correct, found.second_process) == (True, False)
