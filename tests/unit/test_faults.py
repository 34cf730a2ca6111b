"""Attribution of faults to candidate, problem or referee."""

import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.job import Job
from workers.referee.host.device import open_device
from workers.referee.session.failure_status import lacks_interpreter_support, may_be_interpreter_fault, names_a_gpu

JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"tl.bfloat16", backend="triton")
SINGLE: Any = SimpleNamespace(has_dtype=lambda name: False)
BRAIN: Any = SimpleNamespace(has_dtype=lambda name: name == "bfloat16")


@pytest.mark.parametrize(
    ("candidate", "backend", "spec", "beyond"),
    [
        (b"tl.bfloat16", "triton", SINGLE, True),
        (b"", "triton", BRAIN, True),
        (b"", "triton", SINGLE, False),
        (b"", "torch", BRAIN, False),
    ],
)
def test_bf16_is_excused_in_the_interpreter_and_not_on_a_gpu(
    candidate: bytes, backend: str, spec: Any, beyond: bool
) -> None:
    job, cpu = replace(JOB, candidate=candidate, backend=backend), open_device("cpu", 0, 1)
    assert may_be_interpreter_fault(job, spec, cpu) is beyond
    assert not may_be_interpreter_fault(job, spec, replace(cpu, torch_device=torch.device("cuda", 0)))


ASSEMBLY = "InterpreterError: NotImplementedError('inline_asm not supported in interpreter mode')"


@pytest.mark.parametrize(
    ("candidate", "backend", "message", "beyond"),
    [
        (b"tl.inline_asm_elementwise(", "triton", ASSEMBLY, True),
        (b"libdevice.ilogb(x)", "triton", "libdevice's __nv_ilogbf not supported in interpreter mode", True),
        (b"tl.inline_asm_elementwise(", "triton", "ValueError: no", False),
        (b"raise NotImplementedError('not supported in interpreter mode')", "triton", ASSEMBLY, False),
        (b"tl.inline_asm_elementwise(", "torch", ASSEMBLY, False),
    ],
)
def test_instructions_that_the_interpreter_lacks_are_excused(
    candidate: bytes, backend: str, message: str, beyond: bool
) -> None:
    job, cpu = replace(JOB, candidate=candidate, backend=backend), open_device("cpu", 0, 1)
    assert lacks_interpreter_support(job, cpu, message) is beyond
    assert not lacks_interpreter_support(job, replace(cpu, torch_device=torch.device("cuda", 0)), message)


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", True),
        ("RuntimeError: Cannot get CUDA generator without ATen_cuda library.", True),
        ("RuntimeError: 0 active drivers ([]). There should only be one.", True),
        ("ValueError: Expected a cuda device, but got: cpu", True),
        ("ValueError: Input tensor must be on CUDA device", True),
        ("RuntimeError: This Triton implementation requires CUDA tensors.", True),
        ("AssertionError: the number of columns must be a power of two", False),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", False),
        ("KeyError: 'cuda tensor'", False),
    ],
)
def test_a_gpu_that_is_asked_for_by_name_is_no_fault_where_there_is_none(message: str, asks: bool) -> None:
    cpu = open_device("cpu", 0, 1)
    assert names_a_gpu(cpu, message) is asks
    assert not names_a_gpu(replace(cpu, torch_device=torch.device("cuda", 0)), message)


TRACEBACK = """Traceback (most recent call last):
  File "candidate.py", line 30, in forward
    return add(x, y)
  File "candidate.py", line 23, in add
    assert {check}
AssertionError: {message}
"""


@pytest.mark.parametrize(
    ("check", "asks"),
    [
        ("x.is_cuda and y.is_cuda", True),
        ('x.device.type == "cuda"', True),
        ("x.device.type == DEVICE", True),
        ("x.is_contiguous()", False),
    ],
)
def test_a_candidates_own_check_for_a_gpu_is_no_fault_where_there_is_none(check: str, asks: bool) -> None:
    log = TRACEBACK.format(check=check, message="")
    assert names_a_gpu(open_device("cpu", 0, 1), "AssertionError: ", log) is asks


def test_only_the_line_that_raised_is_a_check_for_a_gpu() -> None:
    log = TRACEBACK.format(check="n % 8 == 0", message="").replace("return add(x, y)", "return add(x, y) if x.is_cuda")
    assert not names_a_gpu(open_device("cpu", 0, 1), "AssertionError: ", log)
