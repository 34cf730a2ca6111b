"""Requests as KernelGYM's clients send them, for candidates that the fake worker understands."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import Popen
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

Start = Callable[..., Popen[bytes]]


REFERENCE = "class Model: ...\n# the fake worker does not read this"


def payload(task_id: str, kernel: str, **fields: Any) -> dict[str, Any]:
    """Body that the published client sends, null for `is_valid` among it."""
    return {
        "task_id": task_id,
        "reference_code": REFERENCE,
        "kernel_code": kernel,
        "backend": "triton",
        "num_correct_trials": 5,
        "num_perf_trials": 100,
        "timeout": 60,
        "priority": "normal",
        "entry_point": "Model",
        "is_valid": None,
        "verbose_errors": True,
        "enable_profiling": True,
        "detect_decoy_kernel": True,
        "reference_backend": None,
        **fields,
    }


def kernel(*lines: str) -> str:
    """Orders for the fake worker, long enough for the protocol, which wants ten characters."""
    return "\n".join([*lines, "wrong as it may be"])


def post(
    site: FlaskClient, task_id: str, *lines: str, wait: float = 30, **fields: Any
) -> TestResponse:
    return site.post(f"/evaluate?wait={wait:g}", json=payload(task_id, kernel(*lines), **fields))
