"""Frames between worker and referee, both of which are trusted: a length and JSON,
with bytes as base64.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
from dataclasses import asdict
from typing import Any
from uuid import UUID

from app.domain.job import Job, JobOptions

_LENGTH = struct.Struct("<Q")


def send(channel: socket.socket, frame: dict[str, Any]) -> None:
    """Send one frame.  Raises OSError if the other end is closed."""
    data = json.dumps(frame, allow_nan=False).encode()
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """The next frame; None if the other end is closed."""
    head = _exactly(channel, _LENGTH.size)
    data = None if head is None else _exactly(channel, _LENGTH.unpack(head)[0])
    return None if data is None else json.loads(data)


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        data = channel.recv(min(size - len(parts), 1 << 20))
        if not data:
            return None
        parts += data
    return bytes(parts)


def from_job(job: Job) -> dict[str, Any]:
    """A job as a frame."""
    fields = asdict(job)
    fields["job_id"] = str(job.job_id)
    fields["reference"] = base64.b64encode(job.reference).decode()
    fields["candidate"] = base64.b64encode(job.candidate).decode()
    return fields


def to_job(frame: dict[str, Any]) -> Job:
    """The job of a frame."""
    fields = dict(frame)
    fields["job_id"] = UUID(fields["job_id"])
    fields["reference"] = base64.b64decode(fields["reference"])
    fields["candidate"] = base64.b64decode(fields["candidate"])
    fields["options"] = JobOptions(**fields["options"])
    return Job(**fields)
