"""The referee process of a device: `python -m workers.referee.serve FD DEVICE_CLASS NODE INDEX SLOTS`.

FD is a socket that listens.  Every connection is one of a worker's slots (workers/isolate.py): jobs in, evaluations
out, one at a time, each connection in a thread of its own.  A connection that closes while a job runs cancels it.  The
process ends when the last connection has."""

from __future__ import annotations

import selectors
import signal
import socket
import sys
import threading
import traceback
from dataclasses import asdict

import torch

from workers import frames
from workers.referee.cancel import Cancellation
from workers.referee.evaluate import evaluate
from workers.referee.health import DeviceUnhealthyError
from workers.referee.host import Host

SWITCH_S = 0.0005
"""How long a thread may keep the interpreter from one that is being timed."""

LINGER_S = 2.0
"""How long to wait for a connection while there is none."""


def main(listener_fd: int, device_class: str, node: str, index: int, slots: int) -> None:
    """Serve until nobody is connected any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the worker, which closes when it is done
    torch.set_num_threads(1)  # the other cores belong to those whom we measure
    sys.setswitchinterval(SWITCH_S)
    listener = socket.socket(fileno=listener_fd)
    listener.settimeout(LINGER_S)
    try:
        host = Host(device_class, node, index, slots=slots)
        greeting = {"environment": asdict(host.wait_ready())}
    except Exception as error:
        traceback.print_exc()
        _refuse(listener, f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error
    threads: list[threading.Thread] = []
    with host:
        while True:
            try:
                channel, _ = listener.accept()
            except TimeoutError:
                if not any(thread.is_alive() for thread in threads):
                    return
                continue
            threads.append(threading.Thread(target=Connection(channel, host).serve, args=(greeting,), daemon=True))
            threads[-1].start()


def _refuse(listener: socket.socket, reason: str) -> None:
    """Tell everybody who has connected why there is no referee."""
    listener.settimeout(0.2)
    try:
        while True:
            channel, _ = listener.accept()
            frames.send(channel, {"error": reason})
            channel.close()
    except OSError:
        return


class Connection:
    """One slot: a job at a time."""

    def __init__(self, channel: socket.socket, host: Host) -> None:
        """Takes ownership of the channel."""
        self._channel = channel
        self._host = host

    def serve(self, greeting: dict[str, object]) -> None:
        """Greet, then answer jobs until the other end closes."""
        with self._channel:
            try:
                frames.send(self._channel, greeting)
                while (frame := frames.receive(self._channel)) is not None:
                    self._answer(frame)
            except OSError:
                return  # it is gone, and so is the job

    def _answer(self, frame: dict[str, object]) -> None:
        job = frames.to_job(frame)
        over, cancellation = threading.Event(), Cancellation()
        watch = threading.Thread(target=self._watch, args=(over, cancellation), daemon=True)
        watch.start()
        try:
            evaluation, timeline = evaluate(job, self._host, cancellation)
            answer = {"evaluation": asdict(evaluation), "timeline": timeline.decode()}
        except DeviceUnhealthyError as error:
            answer = {"unhealthy": str(error)}
        except Exception as error:  # noqa: BLE001 (our fault, for the worker to report; other slots go on)
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            over.set()
            watch.join()
        frames.send(self._channel, answer)
        self._host.recycle(job.options.memory_bytes)

    def _watch(self, over: threading.Event, cancellation: Cancellation) -> None:
        """Cancel when the other end closes; it sends nothing while it waits for an answer."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            while not over.is_set():
                if selector.select(timeout=0.1):
                    cancellation.ask()
                    return


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
