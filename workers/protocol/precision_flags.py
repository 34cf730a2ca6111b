"""Numerical settings of the libraries for fp32 on a GPU, which the problem chooses for both sides.

PyTorch's defaults, which KernelBench and similar benchmarks use: products in fp32, convolutions
in TF32 (so the reference has that error, and a candidate may have it), and no search for the
fastest algorithm of cuDNN.  Flags that a problem's module sets are also set for its candidates
before their code is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

PRECISIONS = ("none", "ieee", "tf32")
"""PyTorch's choices: the library's default, fp32, or TF32 in products."""

PLACES = ("matmul", "convolution", "rnn")
SWITCHES = ("benchmark", "deterministic")
"""Flags of cuDNN."""

Numerics = Mapping[str, str | bool]


def chosen() -> dict[str, str | bool]:
    """Present settings of this process."""
    cudnn = torch.backends.cudnn
    found: dict[str, str | bool] = {
        "matmul": torch.backends.cuda.matmul.fp32_precision,
        "convolution": cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
        "rnn": cudnn.rnn.fp32_precision,  # type: ignore[attr-defined]
    }
    return found | {name: bool(getattr(cudnn, name)) for name in SWITCHES}


def choose(wanted: Numerics) -> None:
    """Apply the settings in this process.  A setting that already holds is not set again, because
    PyTorch has two interfaces for it and raises if both are used.
    """
    now, cudnn = chosen(), torch.backends.cudnn
    if now["matmul"] != wanted["matmul"]:
        torch.backends.cuda.matmul.allow_tf32 = wanted["matmul"] == "tf32"
    if any(now[place] != wanted[place] for place in ("convolution", "rnn")):
        cudnn.allow_tf32 = wanted["convolution"] == "tf32"
    # Where the two of cuDNN differ, or PyTorch as a whole was asked for TF32, that
    # did not reach every place.
    libraries: dict[str, Any] = {"convolution": cudnn.conv, "rnn": cudnn.rnn}  # type: ignore[attr-defined]
    for place, library in libraries.items():
        if (library.fp32_precision == "tf32") != (wanted[place] == "tf32"):
            library.fp32_precision = "tf32" if wanted[place] == "tf32" else "ieee"
    for name in SWITCHES:
        if now[name] != wanted[name]:
            setattr(cudnn, name, wanted[name])


def checked(fields: object) -> dict[str, str | bool]:
    """Settings sent by another process, validated.  Raises ValueError."""
    if not isinstance(fields, dict) or set(fields) != {*PLACES, *SWITCHES}:
        raise ValueError(f"not a choice of numerics: {str(fields)[:80]}")
    if any(fields[place] not in PRECISIONS for place in PLACES):
        raise ValueError(f"not a precision of fp32: {str(fields)[:80]}")
    return {place: str(fields[place]) for place in PLACES} | {
        name: bool(fields[name]) for name in SWITCHES
    }


def described(numerics: Numerics) -> str:
    """Text of the settings, for people."""
    words = [
        f"{place} {'fp32' if numerics[place] in ('none', 'ieee') else 'TF32'}" for place in PLACES
    ]
    return ", ".join([*words, *(f"cudnn.{name}" for name in SWITCHES if numerics[name])])
