"""The real web server: limits of one connection, and requests that are held when it is stopped."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.embedded import Services
from app.settings import Settings
from app.web.body_limits import USUAL_BODY_BYTES
from tests.conftest import fresh
from tests.ports import free_port
from tests.waiting import until

SMALL = """
import sys
from app.web import connections
connections.HEADER_S, connections.IDLE_S, connections.BODY_S = 1.0, 2.0, 1.0
connections.BODY_BYTES_PER_S, connections.PER_ADDRESS = 1 << 20, 40
from app.web import serve
serve.main()
"""
"""The server with limits that a test can wait for."""


@contextmanager
def served(settings: Settings, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process and its URL."""
    port = free_port()
    module = folder / "small_web.py"
    module.write_text(SMALL)
    command = [sys.executable, "-m", "gevent.monkey", str(module), "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=settings.to_env() | {"PYTHONPATH": str(Path.cwd())}, stderr=log
        )

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    try:
        until(answers)
        yield process, url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with fresh(services) as own, served(own, tmp_path_factory.mktemp("web")) as (_, url):
        yield url


def ask(url: str, path: str, body: object = None) -> tuple[int, dict[str, str], Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, dict(reply.headers), json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.load(error)


def connect(url: str, said: bytes = b"") -> socket.socket:
    parts = urlsplit(url)
    opened = socket.create_connection((parts.hostname, parts.port or 0), timeout=20)
    opened.sendall(said)
    return opened


def heard(opened: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    try:
        while part := opened.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


HELD = "class Model: ...\n# no worker evaluates it here"


def test_held_requests_are_told_to_come_back_when_the_server_stops(
    settings: Settings, tmp_path: Path
) -> None:
    body = {"reference": HELD, "candidate": "class ModelNew: ...", "backend": "torch"}
    task = {
        "task_id": "t",
        "reference_code": HELD,
        "kernel_code": "class ModelNew: ...",
        "timeout": 60,
    }
    label = {"reference": HELD}
    held: dict[str, tuple[str, Any]] = {
        "reward": ("/v1/reward", body),
        "openrlhf": (
            "/compat/openrlhf/get_reward",
            {"query": ["q"], "prompts": [""], "labels": [label]},
        ),
        "slime": ("/compat/slime/reward", {"response": "r", "label": label}),
        "kernelgym": ("/evaluate", task),
    }
    with (
        served(settings, tmp_path) as (process, url),
        ThreadPoolExecutor(6) as pool,
        ExitStack() as open_,
    ):
        _, _, told = ask(url, "/v1/evaluations", body)
        held |= {
            "read": (f"{told['url']}?wait=50", None),
            "wait": ("/v1/evaluations:wait", {"job_ids": [told["job_id"]], "wait": 50}),
        }
        answers: dict[str, Future[Any]] = {
            name: pool.submit(ask, url, *each) for name, each in held.items()
        }
        stream = open_.enter_context(
            urllib.request.urlopen(f"{url}/v1/events?job_id={told['job_id']}", timeout=60)
        )
        page = open_.enter_context(urllib.request.urlopen(f"{url}/live?topics=jobs", timeout=60))
        until(lambda: ask(url, "/queue/status")[2]["pending"] >= 3)
        time.sleep(0.5)  # until each of them waits
        assert not any(each.done() for each in answers.values())
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        found = {name: each.result() for name, each in answers.items()}
        assert b"event: end" not in stream.read()
        page.read()
        assert process.wait(20) == 0
        assert time.monotonic() - begun < 8
    status, _, kernelgym = found.pop("kernelgym")
    assert (status, kernelgym["status"]) == (200, "pending"), "the published client polls on"
    for name, (status, headers, answer) in found.items():
        assert (status, headers["Retry-After"]) == (503, "5"), name
        assert answer["error"]["kind"] == "stopping", name


@pytest.mark.parametrize("said", [b"", b"POST /login HTTP/1.1\r\nHost: a\r\nX-", b"x"])
def test_a_connection_without_a_request_is_closed(url: str, said: bytes) -> None:
    begun = time.monotonic()
    with connect(url, said) as opened:
        answer = heard(opened)
    assert 0.8 < time.monotonic() - begun < 10
    assert b"200" not in answer


def test_a_body_has_a_time(url: str) -> None:
    head = (
        b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
        b" application/json\r\nContent-Length: 100\r\n\r\n"
    )
    begun = time.monotonic()
    with connect(url, head + b'{"name"') as opened:
        for byte in b': "s':
            time.sleep(0.1)
            opened.sendall(bytes([byte]))
        answer = heard(opened)
    assert time.monotonic() - begun < 10
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert answer.count(b"HTTP/1.1") == 1


def chunked(body: bytes, size: int = 1 << 16) -> bytes:
    """A request with that body in pieces and without a header for its length."""
    head = (
        b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
        b" application/json\r\nConnection: close\r\n"
    )
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    return (
        head
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    )


@pytest.mark.parametrize(("more", "status"), [(0, b"201"), (1, b"413"), (1 << 20, b"413")])
def test_a_body_without_a_length_is_refused_beyond_the_limit_and_never_cut(
    url: str, more: int, status: bytes
) -> None:
    named = json.dumps({"name": f"chunked {more}"}).encode()
    padded = named + b" " * (USUAL_BODY_BYTES - len(named) + more)
    with connect(url, chunked(padded)) as opened:
        answer = heard(opened)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]


def test_a_body_of_any_announced_length_has_a_time(url: str) -> None:
    head = (
        b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
        b" application/json\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n"
    )
    begun = time.monotonic()
    with connect(url, head + b"{") as opened:
        answer = heard(opened)
    assert time.monotonic() - begun < 10
    assert answer.startswith(b"HTTP/1.1 413"), answer


def test_a_body_without_a_length_has_more_time_the_more_of_it_comes(url: str) -> None:
    head, _, rest = chunked(b'{"name": "slow"}' + b" " * (1 << 20)).partition(b"\r\n\r\n")
    with connect(url, head + b"\r\n\r\n") as opened:
        for start in range(0, len(rest), 1 << 18):
            time.sleep(0.3)
            opened.sendall(rest[start : start + (1 << 18)])
        answer = heard(opened)
    assert answer.startswith(b"HTTP/1.1 201"), answer[:200]


def test_what_the_application_never_sees_is_refused_in_its_words(url: str) -> None:
    for asked, status, kind in (
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", b"414", "uri_too_long"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", b"400", "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"408", "request_timeout"),
    ):
        with connect(url, asked) as opened:
            head, _, body = heard(opened).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status), head
        assert b"Content-Type: application/json" in head
        assert json.loads(body)["error"]["kind"] == kind


def test_a_target_may_be_a_whole_url_of_this_host(url: str) -> None:
    for target, status in (
        (b"http://a:80/livez?x", b"200"),
        (b"HTTP://A:80/livez", b"200"),
        (b"http://a:80?x", b"401"),
        (b"http://b/livez", b"400"),
        (b"http://a:80@b/livez", b"400"),
    ):
        with connect(
            url, b"GET " + target + b" HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n"
        ) as opened:
            assert heard(opened).split(b" ")[1] == status, target


def test_a_connection_is_kept_for_the_next_request(url: str) -> None:
    asked = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(url, asked) as opened:
        assert opened.recv(1 << 16).startswith(b"HTTP/1.1 200")
        time.sleep(1.3)  # longer than a header may take
        opened.sendall(asked)
        assert b"HTTP/1.1 200" in heard(opened)


def test_one_address_has_a_share_of_the_connections(url: str) -> None:
    asked = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as open_:
        held = [open_.enter_context(connect(url, asked)) for _ in range(40)]
        for each in held:
            assert each.recv(1 << 16).startswith(b"HTTP/1.1 200")
        with connect(url, asked) as refused:
            answer = heard(refused)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 5" in answer
    until(lambda: ask(url, "/healthz")[0] == 200)


FRAMED = {
    "both": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "no number": b"Content-Length: +2\r\n\r\n{}",
    "space": b"Content-Length : 2\r\n\r\n{}",
    "no header": b"X Y: 1\r\nContent-Length: 2\r\n\r\n{}",
    "folded": b"X: 1\r\n Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}",
    "another coding": b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "no header of a form": (
        b"Content-Type: multipart/form-data; boundary=b\r\nno header\r\nContent-Length: 2\r\n\r\n{}"
    ),
    "bad chunk": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
}


UNREADABLE = {
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "no text": b"GET /v1/runs?x=\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "many headers": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n",
}


def test_the_log_has_the_parts_of_an_answer_as_fields(settings: Settings, tmp_path: Path) -> None:
    with served(replace(settings, log_format="json"), tmp_path) as (_, url):
        assert ask(url, "/jobs.json?page=-1")[0] == 400
        with connect(url, b"GET /refused HTTP/1.1\r\n\r\n") as opened:
            heard(opened)
        log = tmp_path / "log"
        until(lambda: log.read_text().count("app.web.access") == 2)
        lines = [
            line for each in log.read_text().splitlines() if "client" in (line := json.loads(each))
        ]
    told = [tuple(line[name] for name in ("client", "method", "path", "status")) for line in lines]
    assert told == [
        ("127.0.0.1", "GET", "/jobs.json?page=-1", 400),
        ("127.0.0.1", "GET", "/refused", 400),
    ]
    assert lines[0]["bytes"] > 0
    assert lines[0]["duration_s"] > 0


@pytest.mark.parametrize("asked", UNREADABLE.values(), ids=list(UNREADABLE))
def test_a_request_that_is_no_http_is_the_clients_mistake(url: str, asked: bytes) -> None:
    with connect(url, asked) as opened:
        answer = heard(opened)
    assert answer.startswith(b"HTTP/1.1 400"), answer


@pytest.mark.parametrize("framing", FRAMED.values(), ids=list(FRAMED))
def test_a_request_that_may_be_two_is_refused_and_ends_its_connection(
    url: str, framing: bytes
) -> None:
    head = b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(url, head + framing + hidden) as opened:
        answer = heard(opened)
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert answer.count(b"HTTP/1.1") == 1, answer


def test_a_form_with_files_reaches_the_application(url: str) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="candidate"\r\n\r\nclass ModelNew:'
        b" ...\r\n--b--\r\n"
    )
    request = urllib.request.Request(
        f"{url}/jobs/new", body, {"Content-Type": "multipart/form-data; boundary=b"}
    )
    with (
        pytest.raises(urllib.error.HTTPError) as refused,
        urllib.request.urlopen(request, timeout=60),
    ):
        pass
    with refused.value as answer:
        assert b"can be read in one way only" not in answer.read()
