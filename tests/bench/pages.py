"""Pages at size: server time of every list and dashboard, first content in Chromium,
and live updates.

    python -m tests.bench.pages --url http://127.0.0.1:8000      a running web server
                                                                 over a filled database
    python -m tests.bench.pages --scale 100000                   fills servers of its own, serves,
                                                                 measures, removes
    python -m tests.bench.pages --scale 100000 --folder DIR      keeps them in DIR, and
                                                                 measures the data there
    python -m tests.bench.pages --folder DIR --server-only       without a browser, and
                                                                 without live updates

Prints one JSON document.  Times include the HTTP request to this machine; `p95` of a page
is over different filters, cursors and objects of it, so that no page is served from a
warm cache alone.  `cpu_ms`: processor time of the web server and PostgreSQL for one
request, the mean; null with --url.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

from app import embedded
from app.domain import ids
from app.domain.device import DeviceId
from app.embedded import Services
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.queue import devices
from tests import generate
from tests.bench.page_paint import first_content_ms, update_ms
from tests.bench.state_folders import state_folder
from tests.ports import free_port
from tests.processes import descendants, processor_s

ROUNDS = 20
"""Requests of each kind of page."""
LIVE_PAGES = 100
"""Pages that are open at the same time."""
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
TARGETS = {"list": 150, "dashboard": 300, "trajectory": 200, "count": 1000}
"""Milliseconds at p95."""
PARTS = ("count",)
"""Kinds that are a part of a page: no browser loads them alone."""
RARE = (
    "speedup > 100",
    "finding = output_type",
    "verdict = hack and status = passed",
    "problem = softmax and speedup > 5",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    parser.add_argument("--database", default=os.environ.get("ASSAY_DATABASE_URL"))
    parser.add_argument("--scale", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="state folder, kept; filled where it is empty")
    parser.add_argument("--server-only", action="store_true", help="no browser, no live updates")
    parser.add_argument(
        "--only", help="regular expression for the kinds of pages that are measured"
    )
    asked = parser.parse_args()
    if asked.url:
        print(json.dumps(measure(Site(asked.url, Database(asked.database), ()), asked), indent=1))
        return
    with state_folder(asked.folder) as folder, filled(folder, asked.scale) as site:
        print(json.dumps(measure(site, asked), indent=1))


@dataclass(frozen=True)
class Site:
    """A web server over a filled database."""

    url: str
    database: Database
    processes: tuple[int, ...]
    """Web server and PostgreSQL; empty where they are not on this machine."""
    generated_rows_per_s: float | None = None


@contextmanager
def filled(folder: Path, scale: int) -> Iterator[Site]:
    """Servers of their own in that folder, over generated data: the data there, or
    as much as `scale`.
    """
    port = free_port()
    with Services(Settings(state_dir=folder)) as services:
        database = Database(services.settings.database_url or "")
        with database.begin() as connection:
            present = generate.present(connection)
        started_s = time.monotonic()
        rows = 0 if present else generate.fill(database, scale)
        rate = rows / (time.monotonic() - started_s)
        web = embedded.start_web(services.settings, port=port)
        try:
            wait_for(f"http://127.0.0.1:{port}/healthz")
            postgres = int((folder / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
            yield Site(
                f"http://127.0.0.1:{port}", database, (web.pid, postgres), rate if rows else None
            )
        finally:
            web.terminate()
            web.wait(timeout=30)
            database.dispose()


def wait_for(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{url} does not answer")


def measure(site: Site, asked: argparse.Namespace) -> dict[str, object]:
    url = site.url
    pages = {name: page for name, page in paths(url).items() if re.search(asked.only or "", name)}
    found = {"date": datetime.now(UTC).isoformat(timespec="minutes"), "load": os.getloadavg()[0]}
    found |= {"evaluations": total(url), "generated_rows_per_s": site.generated_rows_per_s}
    measured = {name: server_ms(site, kind, listed) for name, (kind, listed) in pages.items()}
    if asked.server_only:
        return found | {"pages": measured}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        painted = {name: listed for name, (kind, listed) in pages.items() if kind not in PARTS}
        for name, first_ms in first_content_ms(browser, url, painted).items():
            measured[name]["first_content_ms"] = first_ms
        live = update_ms(browser, url, site.database)
        browser.close()
    return found | {"pages": measured, "live_update_ms": live, "live_pages": live_pages(site)}


def total(url: str) -> str:
    found = re.search(r"([\d\u202f]+) in all", text_of(f"{url}/"))
    return found[1].replace("\u202f", "") if found else "?"


def paths(url: str) -> dict[str, tuple[str, list[str]]]:
    """Kind of page → list, dashboard, trajectory or count, and different pages of it."""
    runs = hrefs(url, "/runs", "runs")[:ROUNDS]
    problems = hrefs(url, "/problems", "problems")[:ROUNDS]
    trajectories = hrefs(url, "/trajectories", "trajectories")[:ROUNDS]
    evaluations = hrefs(url, "/candidates", "evaluations")[:ROUNDS]
    waiting = hrefs(url, "/review", "review")[:ROUNDS]
    return {
        "overview": ("dashboard", [f"/?hours={hours}" for hours in (24, 72, 336)]),
        "run": ("dashboard", runs),
        "run: problems": ("dashboard", [f"{run}/problems?sort=hacks" for run in runs]),
        "run: rewards": ("dashboard", [f"{run}/rewards" for run in runs]),
        "problem": ("dashboard", problems),
        "heat map": (
            "dashboard",
            [f"/problems/levels?measure={m}" for m in ("correct", "fast", "hacks")],
        ),
        "leaderboard": ("dashboard", ["/leaderboard"]),
        "hacks": ("dashboard", ["/hacks"]),
        "compare runs": (
            "dashboard",
            [f"/runs/compare?run={a[6:]}&run={b[6:]}" for a, b in pairwise(runs)],
        ),
        "new dataset": ("dashboard", ["/exports/new"]),
        "new dataset: first count": (
            "count",
            [f"/exports/funnel?first=yes&where={quote(each)}" for each in COUNTED],
        ),
        "trajectory": ("trajectory", trajectories),
        "conversation": ("trajectory", [f"{each}/conversation" for each in trajectories]),
        "evaluation": ("trajectory", evaluations),
        "review: item": ("trajectory", waiting),
    } | lists(url)


COUNTED = ("", "correct and speedup > 1.2", "level = 3 and verdict = clean", "model = imagined-7b")


def lists(url: str) -> dict[str, tuple[str, list[str]]]:
    """The same of the lists, with their pages, filters and orders."""
    short = [each[-8:] for each in hrefs(url, "/candidates", "evaluations")[:5]]
    detectors = ("stale_output", "decoy_kernel", "claimed_time", "speed_of_light", "inputs_changed")
    filters = ("status=timeout", "verdict=hack", "gpu=h100", "sort=-speedup")
    found = {
        "runs": [
            *walked(url, "/runs"),
            "/runs?model=imagined-7b",
            "/runs?name=step-120",
            "/runs?sort=-hacks",
        ],
        "problems": [
            *walked(url, "/problems"),
            "/problems?level=2",
            "/problems?name=softmax",
            "/problems?sort=-hacks",
        ],
        "trajectories": [
            *walked(url, "/trajectories"),
            "/trajectories?run=generated/imagined-7b/step-120",
            "/trajectories?model=imagined-7b",
            "/trajectories?sort=-best_speedup",
        ],
        "candidates": [*walked(url, "/candidates"), *(f"/candidates?{each}" for each in filters)],
        "candidates, rare filters": [f"/candidates?where={quote(each)}" for each in RARE],
        "jobs": [*walked(url, "/jobs"), "/jobs?state=failed", "/jobs?gpu=h100"],
        "hack": [f"/hacks/{name}" for name in detectors],
        "exports": ["/exports"],
        "review": ["/review", "/review?verdict=hack", "/review?detector=decoy_kernel"],
        "search": [f"/search?q={each}" for each in (*short, "softmax", "imagined", "step-120")],
        "collections": ["/collections", "/endpoints"],
        "administration": ["/admin", "/admin/tables/evaluations", "/audit", "/users", "/notes"],
    }
    return {name: ("list", listed) for name, listed in found.items()}


def walked(url: str, path: str, pages: int = 6) -> list[str]:
    """The first pages of a list, by its own links."""
    found = [path]
    while len(found) < pages:
        link = re.search(r'rel="next" href="([^"]+)"', text_of(url + found[-1]))
        if link is None:
            break
        found.append(link[1].replace("&amp;", "&"))
    return found


def hrefs(url: str, path: str, noun: str) -> list[str]:
    return list(dict.fromkeys(re.findall(rf'href="(/{noun}/[0-9a-f-]{{36}})', text_of(url + path))))


def text_of(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        body: bytes = answer.read()
    return body.decode()


def server_ms(site: Site, kind: str, listed: list[str]) -> dict[str, object]:
    times = []
    before_s = cpu_s(site.processes)
    for number in range(max(ROUNDS, len(listed))):
        started = time.perf_counter()
        text_of(site.url + listed[number % len(listed)])
        times.append(1000 * (time.perf_counter() - started))
    spent_s = cpu_s(site.processes) - before_s
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {
        "kind": kind,
        "pages": len(listed),
        "first_ms": round(times[0], 1),
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(p95, 1),
        "max_ms": round(ordered[-1], 1),
        "cpu_ms": round(1000 * spent_s / len(times), 1) if site.processes else None,
        "reached": p95 <= TARGETS[kind],
    }


def cpu_s(processes: tuple[int, ...]) -> float:
    """Processor time of processes and their descendants, the ended ones among them, in seconds."""
    return sum(
        processor_s(each, with_ended_children=True)
        for pid in processes
        for each in (pid, *descendants(pid))
    )


def live_pages(site: Site) -> dict[str, object]:
    """Delays of LIVE_PAGES open streams on one web process: each hears of a commit and fetches, and
    other pages still answer.
    """
    url, database = site.url, site.database
    heard: list[float] = []
    ready = threading.Barrier(LIVE_PAGES + 1)
    lock = threading.Lock()

    def open_page() -> None:
        with urllib.request.urlopen(
            f"{url}/live?topics=evaluations,jobs,devices", timeout=60
        ) as stream:
            stream.readline(), stream.readline()
            ready.wait()
            while not stream.readline().startswith(b"data:"):
                pass
            text_of(f"{url}/overview/live?hours=24")
            with lock:
                heard.append(time.perf_counter())

    pages = [threading.Thread(target=open_page, daemon=True) for _ in range(LIVE_PAGES)]
    for page in pages:
        page.start()
    ready.wait(timeout=60)
    beside = server_ms(site, "list", ["/runs"])
    node = f"bench-{ids.new_id().hex[-8:]}"
    with database.begin() as connection:
        devices.register(
            connection, DeviceId(device_class="cpu", node=node, index=0), worker=f"bench@{node}"
        )
    committed = time.perf_counter()
    for page in pages:
        page.join(timeout=60)
    delays = sorted(1000 * (at - committed) for at in heard)
    return {
        "open": LIVE_PAGES,
        "updated": len(delays),
        "p50_ms": round(statistics.median(delays), 1),
        "max_ms": round(delays[-1], 1),
        "runs_p95_ms_meanwhile": beside["p95_ms"],
    }


if __name__ == "__main__":
    main()
