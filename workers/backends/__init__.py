"""Backends, which turn a candidate's source into a module: one file and one line for each."""

from __future__ import annotations

from workers.backends import cuda, torch, triton
from workers.backends.base import Backend
from workers.backends.recording.recorder import Recorder

__all__ = ["BACKENDS", "Backend", "Recorder"]

BACKENDS: dict[str, Backend] = {
    "cuda": cuda.CudaBackend(),
    "torch": torch.TorchBackend(),
    "triton": triton.TritonBackend(),
}
