"""Turn to use torch: one thread at a time sends operations to the GPU.

Each operation of torch releases the interpreter's lock for some microseconds, and so does the end of a tensor.  If
several threads send operations, another one takes the lock in that time, and the former holder has to be woken, which
takes ten times as long as the operation.  With eight evaluations in flight on an H100, half of the time in which they
checked was spent on waiting for that lock, which was held for a fifth of the time.

A thread keeps the turn for a few operations and the wait for their results.  Meanwhile it waits for no process and
takes no other lock, so no two threads can wait for each other.  On the CPU device operations are long, and there is no
turn."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

import torch

_TURN = threading.RLock()


def torch_turn(device: torch.device) -> AbstractContextManager[object]:
    """Context in which no other thread of this process sends operations to a GPU in its turn."""
    return _TURN if device.type == "cuda" else nullcontext()
