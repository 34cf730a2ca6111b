"""Evaluations in a real sandbox, without database and queue."""

import textwrap
from typing import Any
from uuid import uuid4

from app.domain.evaluation import Evaluation
from app.domain.job import Job, JobOptions
from workers.worker import referee_client

REFERENCE = b"""
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, width, *, bias):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)
    def forward(self, x, scale):
        return torch.relu(self.linear(x)) * scale
def get_inputs(): return [torch.randn(16, 32), 1.5]
def get_init_inputs(): return [[32], {"bias": True}]
"""


HONEST = REFERENCE.replace(b"class Model(", b"class ModelNew(")


def job(
    candidate: bytes, reference: bytes = REFERENCE, backend: str = "torch", **options: Any
) -> Job:
    chosen = JobOptions(
        **{"call_timeout_s": 5.0, "timing_budget_s": 0, "deadline_s": 20, **options}
    )
    return Job(
        job_id=uuid4(), reference=reference, candidate=candidate, backend=backend, options=chosen
    )


def run(
    device_referee: referee_client.RefereeClient, candidate: bytes, **options: Any
) -> Evaluation:
    return device_referee.run(job(candidate, **options)).evaluation


def in_forward(code: str) -> bytes:
    """A candidate that runs `code` before its honest work."""
    body = textwrap.indent(textwrap.dedent(code).strip(), " " * 8)
    return HONEST.replace(
        b"        return torch.relu", body.encode() + b"\n        return torch.relu"
    )
