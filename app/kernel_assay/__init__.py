"""ENQUEUE: Assay's client for trainers and scripts.

    from kernel_assay import Client, KernelSession

    with Client(url="https://assay.example", token=token) as client:
        spec = {"strategy": {"turns": 3}, "device_class": "h200"}
        session = KernelSession(client, spec).open(reference)

Its packages:

    kernel_assay.client         submissions, results, sessions
    kernel_assay.integrations   hooks of verl, TRL, verifiers, SkyRL, OpenEnv and NeMo Gym
    kernel_assay.training       advantages, losses and mismatch correction; needs torch
    kernel_assay.domain         rules without input or output: rewards, credit, prompts

In a checkout these are `app.client`, `app.integrations`, `workers.training` and `app.domain`; the
distribution `kernel-assay-client` (`backend.py`) holds them under the one name `kernel_assay`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from app.client import (
    Answer,
    Client,
    ClosedError,
    JobHandle,
    KernelSession,
    NotAllowedError,
    RequestError,
    Result,
    ServiceError,
    Step,
    Submission,
    UnknownJobError,
    answer_all,
)
from app.domain.collection.templates import Template
from app.domain.problem import Problem
from app.domain.rollout import Place
from app.domain.trajectory import Message, Run, Turn

__all__ = [
    "Answer",
    "Client",
    "ClosedError",
    "JobHandle",
    "KernelSession",
    "Message",
    "NotAllowedError",
    "Place",
    "Problem",
    "RequestError",
    "Result",
    "Run",
    "ServiceError",
    "Step",
    "Submission",
    "Template",
    "Turn",
    "UnknownJobError",
    "answer_all",
]

if find_spec("verifiers") is not None:  # it looks for its plug-ins in `__all__`
    __all__ += ["KernelEnv", "KernelTaskset"]


def __getattr__(name: str) -> Any:
    """Taskset and environment of verifiers, which is imported when they are asked for."""
    if name in ("KernelEnv", "KernelTaskset"):
        from app.integrations import verifiers

        return getattr(verifiers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
