"""A web server over a seeded database for tests in a real browser."""

from __future__ import annotations

import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Request

from app import embedded
from app.settings import Settings
from tests.integration.web_seed import History
from tests.ports import free_port

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    # A page is closed before optimised code of axe and of its own scripts pays: a fifth of the
    # processor time of a page.
    "--js-flags=--no-opt",
]


@dataclass
class LiveSite:
    """A running web server and the complaints of its pages."""

    url: str
    history: History
    complaints: list[str] = field(default_factory=list)

    def path(self, noun: str) -> str:
        seeded = self.history.seeded
        return {
            "passed": f"/evaluations/{seeded.evaluations['passed']}",
            "hack": f"/evaluations/{seeded.evaluations['hack']}",
            "trajectory": f"/trajectories/{seeded.trajectories[0]}",
            "timeline": f"/evaluations/{seeded.evaluations['passed']}/timeline",
            "split": f"/trajectories/{seeded.trajectories[0]}?turn=3&tab=diff&view=split",
        }[noun]

    def failed(self, request: Request) -> None:
        """Note a request without answer.  A page that is left ends its stream and its requests."""
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}")


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Address of a web server of its own."""
    port = free_port()
    server = embedded.start_web(settings, port=port)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/healthz")
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)


@contextmanager
def running(history: History) -> Iterator[LiveSite]:
    with serving(history.settings) as url:
        yield LiveSite(url=url, history=history)


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise TimeoutError(f"{url} does not answer")
