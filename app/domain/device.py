"""A device: one GPU (or the CPU) of one host, and whether it takes jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEVICE_CLASSES = (
    "cpu",
    "a100",
    "h100",
    "h200",
    "b200",
    "l40s",
    "a10",
    "t4",
    "v100",
    "mi300x",
    "gpu",
)
"""Kinds of device a job may ask for; `gpu` is any GPU that no other name fits."""


class DeviceState(StrEnum):
    """State of a device: does it take jobs?"""

    ONLINE = "online"
    OFFLINE = "offline"
    """Its worker said goodbye, or has not been heard of."""
    DRAINING = "draining"
    """It finishes running jobs and takes no more: an operator wants it to be empty."""
    QUARANTINED = "quarantined"
    """Its results are not to be believed: its jobs run again elsewhere."""


CLOSED = frozenset({DeviceState.DRAINING, DeviceState.QUARANTINED})
"""States set by operators and failed checks; they last until an operator resumes the device."""

_SLOTS = {"cpu": 1, "t4": 2, "a10": 4, "v100": 4, "gpu": 4}
_SLOTS_OF_LARGE_GPUS = 8


def slots_worth(device_class: str) -> int:
    """Evaluations in flight that a device of this class is worth: 1 on the CPU, where a referee has
    one at a time; 8 on a GPU with 40 GB or more (H200: 260 evaluations a minute, 97 with 1); fewer
    where eight contexts and their candidates take too much of its memory (not measured).
    """
    return _SLOTS.get(device_class, _SLOTS_OF_LARGE_GPUS)


@dataclass(frozen=True, kw_only=True)
class DeviceId:
    """Place of a device."""

    device_class: str
    node: str
    index: int

    @property
    def device(self) -> str:
        """The name that a job is pinned by: '<node>.<index>'."""
        return f"{self.node}.{self.index}"

    def __str__(self) -> str:
        return f"{self.device_class} {self.device}"
