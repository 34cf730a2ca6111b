"""Problem families, and decontamination from benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from app.domain.dataset import problem_family
from app.domain.dataset.decontamination import HeldOut, Index

PROBLEM = b"""
import torch
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, 64)
    def forward(self, x):
        y = self.linear(x)
        y = torch.nn.functional.gelu(y) * 0.5
        return y.sum(dim=-1).clamp(min=-1.0, max=1.0)
def get_inputs(): return [torch.randn(4, 32)]
def get_init_inputs(): return [32]
"""
RESHAPED = PROBLEM.replace(b"32", b"64").replace(b"-1.0", b"-2.0")
RENAMED = (
    RESHAPED.replace(b"linear(", b"projection(")
    .replace(b".linear ", b".projection ")
    .replace(b"y ", b"out ")
)
RENAMED = RENAMED.replace(b"(y)", b"(out)").replace(b"y.sum", b"out.sum")
ANOTHER = b"""
import torch
class Model(torch.nn.Module):
    def forward(self, image, kernel):
        padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
        return torch.nn.functional.conv2d(padded, kernel, stride=2).relu().flatten(1).softmax(dim=1)
"""


def test_families() -> None:
    own, reshaped, renamed, another = (
        problem_family.keys(text, "Model") for text in (PROBLEM, RESHAPED, RENAMED, ANOTHER)
    )
    assert (own.exact != reshaped.exact, own.task == reshaped.task) == (True, True)
    assert (own.task == renamed.task, own.family == renamed.family) == (True, True)
    assert own.family != another.family
    assert (
        problem_family.keys(b"def", "Model").family != problem_family.keys(b"def f", "Model").family
    )
    cases = (
        b"def get_cases():\n    x = torch.randn(8)\n    return [{'inputs': [x], 'outputs':"
        b" x.exp()}]\n"
    )
    wider, other = (
        cases.replace(b"8", b"64").replace(b"x", b"y").replace(b"eyp", b"exp"),
        cases.replace(b"exp", b"log"),
    )
    assert (
        problem_family.keys(cases, "Model").family
        == problem_family.keys(wider, "Model").family
        != problem_family.keys(other, "Model").family
    )


@pytest.mark.parametrize("result", ["+".join(["x"] * 900), "x + 0x" + "f" * 5000])
def test_a_reference_that_is_nested_too_deep_is_like_nothing_but_itself(result: str) -> None:
    source = f"class Model:\n    def forward(self, x):\n        return {result}\n".encode()
    keys = problem_family.keys(source, "Model")
    assert keys == problem_family.keys(source, "Model")
    assert keys != problem_family.keys(source + b"VERSION = 2\n", "Model")


def test_keys_are_the_same_in_every_process() -> None:
    source = (
        "class Model:\n    if CONDITION:\n        alpha = 1\n        beta = 2.5\n"
        "        gamma = 'x'\n        delta = None\n    def forward(self, x):\n        return x\n"
    )
    program = (
        "from app.domain.dataset import problem_family;"
        f"print(problem_family.keys({source.encode()!r}, 'Model'))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in range(4)
    }
    assert found == {f"{problem_family.keys(source.encode(), 'Model')}\n"}


def test_decontamination_names_the_rule() -> None:
    index = Index(held_out=[HeldOut(name="kb/1", reference=PROBLEM)])
    found = [index.problem(text) for text in (PROBLEM, RESHAPED, RENAMED, ANOTHER)]
    assert [match.rule if match else None for match in found] == ["exact", "task", "task", None]
    step = PROBLEM.replace(b"        return y", b"        y = torch.exp(y)\n        return y")
    match = index.problem(step)
    assert match is not None
    assert (match.rule, match.held_out) == ("ngram", "kb/1")
    assert index.text(f"Consider:\n{PROBLEM.decode()}\nNow yours.") is not None
    assert index.text("Consider nothing.") is None
