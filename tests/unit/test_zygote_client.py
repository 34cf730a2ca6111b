"""A zygote that several evaluations ask for processes while it starts."""

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from workers.sandbox import zygote_client
from workers.sandbox.process_errors import ZygoteError


@pytest.fixture
def starting(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[zygote_client.Zygote, socket.socket]]:
    """A zygote that has said nothing so far, and its end of the channel."""
    started: dict[str, Any] = {}

    def popen(_: list[str], *, pass_fds: list[int], **__: object) -> object:
        started["channel"] = socket.socket(fileno=socket.dup(pass_fds[0]))
        return SimpleNamespace(wait=lambda: 3, kill=lambda: None)

    monkeypatch.setattr(subprocess, "Popen", popen)
    zygote = zygote_client.Zygote(("role",), {})
    with started["channel"]:
        yield zygote, started["channel"]
    zygote.close()


def _waiting(zygote: zygote_client.Zygote, raised: list[str]) -> list[threading.Thread]:
    def wait() -> None:
        try:
            zygote.wait_ready()
        except ZygoteError as error:
            raised.append(str(error))

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    return threads


def test_one_greeting_is_for_all_who_wait(
    starting: tuple[zygote_client.Zygote, socket.socket],
) -> None:
    zygote, channel = starting
    threads = _waiting(zygote, [])
    channel.send(json.dumps([["landlock"], ["seccomp"]]).encode())
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert (zygote.active, zygote.missing) == (["landlock"], ["seccomp"])


def test_all_who_wait_are_told_that_it_ended(
    starting: tuple[zygote_client.Zygote, socket.socket],
) -> None:
    zygote, channel = starting
    raised: list[str] = []
    threads = _waiting(zygote, raised)
    channel.close()
    for thread in threads:
        thread.join(10)
    assert len(raised) == 3
    assert all("ended with code 3" in each for each in raised)
