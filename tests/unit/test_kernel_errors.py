"""Errors of interpreted kernels name the line of the kernel."""

from typing import Any

import pytest

from tests import interpreted

KERNELS = """
import json
import torch
import triton
import triton.language as tl
from workers.shims import call_errors

@triton.jit
def helper(x):
    tl.assume(x > 0)
    return x

@triton.jit
def calls_helper(out_ptr):
    tl.store(out_ptr, helper(tl.program_id(0)))

@triton.jit
def misspells(out_ptr):
    x = tl.load(out_ptr)
    tl.store(out_ptr, x + missing)

answers = {}
for kernel in (calls_helper, misspells):
    try:
        kernel[(1,)](torch.zeros(1))
    except Exception as error:
        answers[kernel.fn.__name__] = call_errors.explain(error).splitlines()[0]
try:
    kernel[(1,)]()
except Exception as error:
    answers["host"] = call_errors.explain(error).splitlines()[0]
print(json.dumps(answers))
"""


@pytest.fixture(name="answers", scope="module")
def _answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """First lines of the explanations, from a process in which Triton interprets."""
    return interpreted.answer(tmp_path_factory.mktemp("errors"), KERNELS)


@pytest.mark.parametrize(
    ("kernel", "place"),
    [
        ("calls_helper", "(in helper, line 10: tl.assume(x > 0))"),
        ("misspells", "(in misspells, line 20: tl.store(out_ptr, x + missing))"),
    ],
)
def test_an_error_names_the_line_of_the_kernel(answers: Any, kernel: str, place: str) -> None:
    assert answers[kernel].startswith("InterpreterError: ")
    assert answers[kernel].endswith(place)


def test_an_error_of_the_host_has_no_line_of_a_kernel(answers: Any) -> None:
    assert "(in " not in answers["host"]
