"""The web server's limit on open files: raised to the need of its connections, and
never in the way of starting.
"""

from __future__ import annotations

import resource

import pytest

from app.web import serve

UNLIMITED = resource.RLIM_INFINITY
NEEDED = serve.CONNECTIONS + serve.OTHER_FILES


@pytest.mark.parametrize(
    ("limits", "raised_to", "connections"),
    [
        ((1_024, 524_288), NEEDED, serve.CONNECTIONS),
        ((1_024, UNLIMITED), NEEDED, serve.CONNECTIONS),
        ((1_024, 2_000), 2_000, 2_000 - serve.OTHER_FILES),
        ((100_000, 524_288), None, serve.CONNECTIONS),
        ((UNLIMITED, UNLIMITED), None, serve.CONNECTIONS),
    ],
)
def test_the_limit_is_raised_as_far_as_needed(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    raised_to: int | None,
    connections: int,
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: raised.append(both))
    assert serve.connections_allowed() == connections
    assert raised == ([] if raised_to is None else [(raised_to, limits[1])])


def test_a_server_without_room_for_connections_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    with pytest.raises(OSError, match="expected at least 1000 open files, got 256"):
        serve.connections_allowed()
