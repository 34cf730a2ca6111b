"""ROUTE: from a job to the queue of the workers that may run it.  Every queue is declared,
so a misspelt one is an error.
"""

from __future__ import annotations

import re

from app.domain import device as device_domain
from app.domain.device import DeviceId

EVALUATE = "job.evaluate"
"""Task: evaluate the job that is due on the worker's device."""

CALL = "model.call"
"""Task: make the call of a model that is due at the worker's endpoint."""

DECIDE = "rollout.decide"
"""Task: decide the next step of the rollout with the id that is its argument.  The other tasks have
none: the row that is due is chosen when a worker asks for it.
"""

GENERATE = "generate"
"""Beginning of the queues of endpoints."""

DEVICE_CLASSES = device_domain.DEVICE_CLASSES
"""Device classes; each has a queue."""

PRIORITIES = {"high": 0, "normal": 1, "low": 2}
"""Priority → rank; 0 goes first.  Ranks are compared when a job is claimed
(app/store/queue/scheduling.py), not in Redis.
"""

_PIN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(?P<index>\.\d{1,2})?")


class UnknownQueueError(ValueError):
    """A device class or device that no queue serves."""


def queue_for(device_class: str, device: str | None = None) -> str:
    """The queue of a job: `cpu` or `gpu.h200` for any device of the class.

    Pinned jobs have queues of their own: `gpu.<node>.<index>` for one device
    (`device="node.0"`), `gpu.<node>.any` for the devices of one host (`device="node"`); for
    the CPU these begin with `cpu`.
    """
    if device_class not in DEVICE_CLASSES:
        raise UnknownQueueError(
            f"unknown GPU class {device_class!r}; expected one of {', '.join(DEVICE_CLASSES)}"
        )
    kind = "cpu" if device_class == "cpu" else "gpu"
    if device is None:
        return "cpu" if device_class == "cpu" else f"{kind}.{device_class}"
    pin = _PIN.fullmatch(device)
    if pin is None:
        raise UnknownQueueError(
            f"device: expected '<node>' or '<node>.<index>' in lower case, got {device!r}"
        )
    return f"{kind}.{device}" if pin["index"] else f"{kind}.{device}.any"


def generate_queue(endpoint: str) -> str:
    """The queue of an endpoint's workers: `generate.<name>`."""
    return f"{GENERATE}.{endpoint}"


def tasks_of(queue: str) -> tuple[str, ...]:
    """Tasks that the messages of a queue may ask for."""
    return (CALL, DECIDE) if queue.startswith(f"{GENERATE}.") else (EVALUATE,)


def served(place: DeviceId) -> dict[str, str | None]:
    """The queues of the worker of one device, with the pin that the jobs of each have."""
    pins = (None, place.node, place.device)
    return {queue_for(place.device_class, pin): pin for pin in pins}


def node_name(hostname: str) -> str:
    """A host's name as it stands in queue names: lower case, without its domain,
    nothing but letters, digits and -.
    """
    name = re.sub(r"[^a-z0-9]+", "-", hostname.split(".", 1)[0].lower()).strip("-")
    return name[:63] or "node"


def class_queues() -> tuple[str, ...]:
    """Every queue that exists before any device is known."""
    return tuple(queue_for(name) for name in DEVICE_CLASSES)
