"""Inputs that a reference changes in every call belong to the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from app.domain.evaluation import Status
from tests.unit.two_sides import APART, STREAMED, TOGETHER, TwoSides, here
from workers.backends.recording.recorder import Recorder
from workers.protocol.problem_spec import Slots
from workers.referee.comparison.correctness import DEFAULT_RULE
from workers.referee.probes import call_profile
from workers.referee.processes.process_handle import FailedError
from workers.referee.session import first_calls, variant_calls
from workers.referee.session.fault_attribution import Fault
from workers.referee.wrong_output import describe

CACHE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(16, 16)
    def forward(self, x, cache):
        cache[:, 5] = self.project(x)
        return torch.softmax(torch.einsum("bsd,bd->bs", cache, x), -1)
def get_inputs(): return [torch.randn(4, 16), torch.randn(4, 32, 16)]
"""
HONEST = CACHE.replace("class Model(", "class ModelNew(")
LEAVES_OUT = HONEST.replace("cache[:, 5]", "cache = cache.clone(); cache[:, 5]")
OTHER_VALUE = (
    HONEST.replace("self.project(x)", "self.project(x)")
    .replace("return", "y =")
    .replace("def get_inputs", "        cache[:, 5] *= 1.01\n        return y\ndef get_inputs")
)
NOTHING = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y): y.copy_(torch.tanh(x) * 2)
def get_inputs(): return [torch.randn(8, 8), torch.zeros(8, 8)]
"""


def _strided(source: str) -> str:
    """The source with a cache that has its last dimension first in memory."""
    return source.replace("torch.randn(4, 32, 16)", "torch.randn(16, 4, 32).permute(1, 2, 0)")


STRIDED, STRIDED_WRONG = _strided(CACHE), _strided(OTHER_VALUE)


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with here():
        yield


def _fails(sides: TwoSides) -> list[str]:
    """Descriptions of wrong outputs after a first call, some calls and variants of inputs."""
    runner = sides.runner
    first_calls.make_first(runner)
    together = runner.try_calls(runner.draw(2))
    with runner.device_lock.shared():
        truth = first_calls.try_null_answers(runner, together.batch)
        sizes = variant_calls.answer_sizes(truth)
    if not runner.failed:
        variant_calls.try_variants(runner, sizes)
    return [
        f"{check.index} {list(check.shape)}"
        for trial in runner.failed
        for check in trial.outputs
        if not check.ok
    ]


@pytest.mark.parametrize("slots", [TOGETHER, APART, STREAMED])
@pytest.mark.parametrize(
    ("problem", "source", "wrong"),
    [
        (CACHE, HONEST, None),
        (CACHE, OTHER_VALUE, "1 [4, 32, 16]"),
        (STRIDED, _strided(HONEST), None),
        (STRIDED, STRIDED_WRONG, "1 [16, 4, 32]"),
        (NOTHING, NOTHING.replace("class Model(", "class ModelNew("), None),
        (
            NOTHING,
            NOTHING.replace("class Model(", "class ModelNew(").replace("* 2", ""),
            "0 [8, 8]",
        ),
    ],
)
def test_what_the_reference_leaves_in_its_inputs_is_compared(
    tmp_path: Path, problem: str, source: str, wrong: str | None, slots: Slots
) -> None:
    sides = TwoSides(tmp_path, problem, source, slots)
    assert sides.spec.compared_inputs == (1,)
    found = _fails(sides)
    assert (found[0] if found else None) == wrong


RETURNED = "class Model:\n    def __call__(self, x): x += 1; return x\n"
AT_RANDOM = "class Model:\n    def __call__(self, x, y): y.normal_(); return x + 1\n"
AT_TIMES = (
    "class Model:\n    def __call__(self, x, y):\n        y[0] = y[0].round()\n        return x\n"
)
TRANSPOSED = "class Model:\n    def __call__(self, x, y): y.t().add_(1); return x + 1\n"
DRAW = "import torch\ndef get_inputs(): return [torch.randn(4, 4), torch.randn(4, 4)]\n"


@pytest.mark.parametrize(
    ("problem", "mutated", "compared"),
    [
        (RETURNED + DRAW.replace(", torch.randn(4, 4)]", "]"), (0,), ()),
        (AT_RANDOM + DRAW, (1,), ()),
        (AT_TIMES + DRAW, (1,), (1,)),
        (
            AT_TIMES
            + DRAW.replace("torch.randn(4, 4)]", "torch.arange(16.).view(4, 4) + .1 * N()]")
            + "CALLS = []\ndef N(): CALLS.append(0); return len(CALLS) < 2\n",
            (1,),
            (),
        ),
        (TRANSPOSED + DRAW.replace("torch.randn(4, 4)]", "torch.randn(4, 4).t()]"), (1,), (1,)),
        (
            TRANSPOSED.replace("y.t().add_(1)", "y.add_(1).t_()") + DRAW,
            (1,),
            (),
        ),
    ],
)
def test_which_changed_inputs_belong_to_the_answer(
    tmp_path: Path, problem: str, mutated: tuple[int, ...], compared: tuple[int, ...]
) -> None:
    source = problem.replace("class Model", "class ModelNew")
    spec = TwoSides(tmp_path, problem, source).spec
    assert (spec.mutated_inputs, spec.compared_inputs) == (mutated, compared)


def test_a_reference_without_an_answer_is_refused(tmp_path: Path) -> None:
    problem = AT_RANDOM.replace("return x + 1", "return None") + DRAW
    with pytest.raises(FailedError, match="not in every call, or not alike"):
        TwoSides(tmp_path, problem, "")


def test_a_change_of_another_input_stays_a_remark(tmp_path: Path) -> None:
    source = HONEST.replace("return", "y =").replace(
        "def get_inputs", "        x.zero_()\n        return y\ndef get_inputs"
    )
    sides = TwoSides(tmp_path, CACHE, source)
    sides.runner.try_calls(sides.runner.draw(2))
    assert not sides.runner.failed
    assert sides.runner.record.correctness().trials[0].inputs_changed == (0,)


def test_the_cost_is_a_copy_of_the_input_and_one_in_fp64(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path, CACHE, HONEST)
    cache = 4 * 32 * 16 * torch.float32.itemsize
    assert sides.spec.output_bytes == 512 + cache
    assert sides.spec.expected_bytes == 1024 + 2 * cache
    assert sides.spec.bytes_moved < 4 * cache  # the whole of it need not be written


STEP = """
import torch
class Model(torch.nn.Module):
    def forward(self, weights, gradient):
        weights.add_(gradient, alpha=-1e-6)
        return gradient.norm()
def get_inputs(): return [torch.randn(512), torch.randn(512)]
"""


@pytest.mark.parametrize("slots", [TOGETHER, APART, STREAMED])
@pytest.mark.parametrize(
    ("problem", "source", "left"),
    [
        (CACHE, LEAVES_OUT, 1),
        (STRIDED, _strided(LEAVES_OUT), 1),
        (STEP, STEP.replace("weights.add_(gradient, alpha=-1e-6)", ""), 0),
    ],
)
def test_an_input_left_as_it_was_is_wrong_however_little_the_reference_changes_it(
    tmp_path: Path, problem: str, source: str, left: int, slots: Slots
) -> None:
    source = source.replace("class Model(", "class ModelNew(")
    with pytest.raises(Fault, match=f"leaves input {left} as it was") as raised:
        _fails(TwoSides(tmp_path, problem, source, slots))
    assert raised.value.status is Status.INCORRECT


ADDS = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y): y.add_(x)
def get_inputs(): return [torch.randn(8, 8), torch.randn(8, 8)]
"""


def test_a_call_that_a_profiler_repeats_changes_its_inputs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the recorder repeats a call on the same inputs where the host was slow."""

    def profile(
        _: Recorder, device: torch.device, call: Any, deliver: Any, *, repeats: bool
    ) -> int:
        call()
        deliver()
        if repeats:
            call()
        return 0

    monkeypatch.setattr(Recorder, "profile", profile)
    sides = TwoSides(tmp_path, ADDS, ADDS.replace("class Model(", "class ModelNew("))
    call_profile._profiled(sides.runner, 0)
    assert sides.runner.record.calls == 1
    assert not sides.runner.failed


def test_a_small_step_is_right(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path, STEP, STEP.replace("class Model(", "class ModelNew("))
    assert not _fails(sides)


@pytest.mark.parametrize(
    ("problem", "source", "named"),
    [
        (CACHE, OTHER_VALUE, " (float32, [4, 32, 16])"),
        (STRIDED, STRIDED_WRONG, ", in the order of its memory (float32, [16, 4, 32])"),
    ],
)
def test_a_wrong_input_is_named_as_one(
    tmp_path: Path, problem: str, source: str, named: str
) -> None:
    sides = TwoSides(tmp_path, problem, source)
    _fails(sides)
    said = describe(sides.runner.failed[0], DEFAULT_RULE, sides.spec)
    assert f"input 1, which the reference changes, after the call{named}" in said
