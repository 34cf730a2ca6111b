"""Numbers on a device that observers of a call read together, after the call.

Each reading waits for the device, and where other processes use it for their turns, too: a network
of 400 operators was looked at in as many waits, and a loop of 20,000 in thousands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import torch

MOST = 1 << 12
"""Entries from which on all are read: each holds memory of the device."""


class _Entry(NamedTuple):
    use: Callable[..., None]
    numbers: tuple[torch.Tensor, ...]


class LaterNumbers:
    """Numbers that have not been read yet, with the functions that take them."""

    def __init__(self) -> None:
        """None at first."""
        self._open: list[_Entry] = []

    def add(self, use: Callable[..., None], *numbers: torch.Tensor) -> None:
        """Let `use` be called with these numbers, tensors without dimensions, as floats."""
        self._open.append(_Entry(use, numbers))
        if len(self._open) >= MOST:
            self.read()

    def read(self) -> None:
        """Read all numbers, in one wait for each device, and call their functions in order."""
        entries, self._open = self._open, []
        if not entries:
            return
        by_device: defaultdict[torch.device, list[torch.Tensor]] = defaultdict(list)
        for entry in entries:
            for number in entry.numbers:
                by_device[number.device].append(number.to(torch.float32))
        read = {device: iter(torch.stack(some).tolist()) for device, some in by_device.items()}
        for entry in entries:
            entry.use(*(next(read[number.device]) for number in entry.numbers))
