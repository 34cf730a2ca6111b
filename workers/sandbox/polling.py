"""Waiting for sockets."""

from __future__ import annotations

import select
import socket


def readable(*files: socket.socket, timeout_s: float = 0.0) -> list[socket.socket]:
    """The files that become readable, or are closed at the other end, within that time.

    Uses poll(2): select(2) is limited to 1024 descriptors, and a worker that runs
    for weeks may have more.
    """
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(timeout_s * 1000)}
    return [file for file in files if file.fileno() in ready]
