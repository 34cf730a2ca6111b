"""BROWSE: device of a request by a protocol that knows one kind only: KernelGYM's tasks, rewards
of OpenRLHF and slime.  Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from app import routing
from app.domain.request import RequestError
from app.store.queue.devices import Device

_CUDA = re.compile(r"cuda:(\d{1,2})")


def choose(
    devices: Sequence[Device], preference: str | None, name: str = "device_preference"
) -> tuple[str, str | None]:
    """(device class, device or None for any of them).  Raises RequestError about `name`.

    Without a preference: the kind of GPU of which most are online, else of which most were
    ever there, else the CPU. A preference is `h200`, `<node>.<index>`, or `cuda:<index>`: the
    first online device of that index.
    """
    usual = _usual(devices)
    if preference is None or preference == "cuda":
        return usual, None
    if preference in routing.DEVICE_CLASSES:
        return preference, None
    for device in devices:
        if device.device == preference and device.device_class != "cpu":
            return device.device_class, preference
    if found := _CUDA.fullmatch(preference):
        for device in _online(devices):
            if device.device_class == usual != "cpu" and device.device_index == int(found[1]):
                return usual, device.device
    known = (
        ", ".join(device.device for device in devices if device.device_class != "cpu") or "none yet"
    )
    raise RequestError(
        f"{name}: expected one of {', '.join(routing.DEVICE_CLASSES)}, cuda:<index> of"
        f" an online GPU, or a known device ({known}), got {preference!r}"
    )


def _usual(devices: Sequence[Device]) -> str:
    for among in (_online(devices), devices):
        gpus = Counter(device.device_class for device in among if device.device_class != "cpu")
        if gpus:
            return max(sorted(gpus), key=gpus.__getitem__)
    return "cpu"


def _online(devices: Sequence[Device]) -> list[Device]:
    return [device for device in devices if device.state == "online"]
