"""Whose fault it is."""

import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.job import Job
from workers.referee.device import open_device
from workers.referee.faults import beyond_the_interpreter

JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"tl.bfloat16", backend="triton")
SINGLE: Any = SimpleNamespace(has_dtype=lambda name: False)
BRAIN: Any = SimpleNamespace(has_dtype=lambda name: name == "bfloat16")


@pytest.mark.parametrize(
    ("candidate", "backend", "agreed", "beyond"),
    [
        (b"tl.bfloat16", "triton", SINGLE, True),
        (b"", "triton", BRAIN, True),
        (b"", "triton", SINGLE, False),
        (b"", "torch", BRAIN, False),
    ],
)
def test_bf16_in_the_interpreter_accuses_nobody_and_on_a_gpu_it_does(
    candidate: bytes, backend: str, agreed: Any, beyond: bool
) -> None:
    job, cpu = replace(JOB, candidate=candidate, backend=backend), open_device("cpu", 0, 1)
    assert beyond_the_interpreter(job, agreed, cpu) is beyond
    assert not beyond_the_interpreter(job, agreed, replace(cpu, torch_device=torch.device("cuda", 0)))
