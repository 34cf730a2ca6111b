"""Requests that are made up from the OpenAPI document: allowed ones are accepted, forbidden ones
are refused, every answer is one that it describes.

Needs the group `api` (schemathesis); skipped without it.  It asks for every boundary of every
field, some 19,000 requests; with ASSAY_SCHEMA_EXAMPLES=700 also for that many of each
operation, drawn at random, and for sequences of them: some 45,000 in all.  The report is
`schemathesis.txt` in the test's folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from app.embedded import Services
from app.web import create_app, job_waiter
from app.web.api import events, rewards
from tests.conftest import fresh

pytest.importorskip("schemathesis")

EXAMPLES = int(os.environ.get("ASSAY_SCHEMA_EXAMPLES", "0"))
"""Random requests to each of 38 operations."""
LEAST_REQUESTS = 15_000

CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "504"]  # 504 as it must be: no worker evaluates here
[checks.negative_data_rejection]
# 414, too: a real server refuses a query of 250 ids before it is read
expected-statuses = ["4xx", "5xx"]
"""


class Quiet(WSGIRequestHandler):
    def log_request(self, *args: Any) -> None:
        pass


@pytest.fixture
def url(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that makes no dataset and holds no request for long."""
    wait = job_waiter.Ended.next
    monkeypatch.setattr(
        job_waiter.Ended, "next", lambda self, timeout_s: wait(self, min(timeout_s, 0.01))
    )
    monkeypatch.setattr(rewards, "_wait", lambda *_: None)
    monkeypatch.setattr(events, "LONGEST_S", 0.05)
    monkeypatch.setattr("app.web.api.exports.background._spawn", lambda *_: None)
    monkeypatch.setattr("app.web.api.exports.background.MAKING", 1_000_000)
    with fresh(services) as own:
        app = create_app(own)
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()
        parts = app.extensions["assay"]
        parts["watch"].close()
        parts["submit_batcher"].broker.close()
        parts["database"].dispose()


@pytest.mark.slow
@pytest.mark.timeout(1_200 + 10 * EXAMPLES)
def test_the_document_is_exact(url: str, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(tmp_path / "schemathesis.toml"),
        "run",
    ]
    options = {
        "checks": "all",
        # DELETE cancels exports in the making; finished and cancelled ones can still be read.
        "exclude-checks": "use_after_free",
        "mode": "all",
        "phases": "coverage,fuzzing,stateful" if EXAMPLES else "coverage",
        "max-examples": str(EXAMPLES or 1),
        "generation-database": "none",
        "seed": "1",
        "request-timeout": "60",  # seconds; both cores may be busy
    }
    listed = [word for name, value in options.items() for word in (f"--{name}", value)]
    here = Path(__file__).parent
    done = subprocess.run(
        [*command, f"{url}/v1/openapi.json", *listed, "--continue-on-failure", "--no-color"],
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "schema_hooks",
            "PYTHONPATH": str(here),
            "COLUMNS": "120",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / "schemathesis.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated, done.stdout
    assert int(generated[1]) >= LEAST_REQUESTS + 20 * EXAMPLES, done.stdout[-2_000:]
    sys.stdout.write(generated[0])
