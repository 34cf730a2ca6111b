"""`assay endpoint` and `assay prompt` against the scripted server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from click.testing import Result

from app.domain.collection.call import EndpointConfig
from app.endpoints import probe as probes
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.process import running
from app.endpoints.scripted.script import Scene, Script
from app.settings import Settings
from tests.integration.cli import assay

Run = Callable[..., Result]
SCRIPT = Script(
    scenes=(Scene(match="Name a number", turns=(("one",), tuple(f"Text {n}" for n in range(40)))),)
)
KEY = "sk-of-the-probe"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(SCRIPT, Behaviour(key=KEY)) as found:
        yield found


@pytest.fixture
def run(settings: Settings) -> Run:
    return partial(assay, settings)


def endpoint(address: str, dialect: str, **fields) -> EndpointConfig:
    return EndpointConfig(name="e", base_url=address, dialect=dialect, model="scripted", **fields)


def test_an_endpoint_is_added_probed_and_listed(run: Run, address: str):
    added = run(
        *("endpoint", "add", "local", "--url", address, "--model", "scripted", "--dialect", "vllm"),
        *(
            "--key-env",
            "PROBE_KEY",
            "--price-input",
            "1",
            "--price-output",
            "2",
            "--header",
            "X-Team=kernels",
        ),
    )
    assert added.exit_code == 0
    missing = run("endpoint", "probe", "local")
    assert (missing.exit_code, "PROBE_KEY" in missing.output) == (2, True)
    probed = run("endpoint", "probe", "local", PROBE_KEY=KEY)
    assert probed.exit_code == 0
    for line in (
        "seed honoured   yes",
        "token ids       yes",
        "logprobs mode   raw",
        "context tokens  131072",
    ):
        assert line in probed.output
    assert "logprobs are raw" in probed.output
    [row] = json.loads(run("endpoint", "list", "--json").stdout)
    assert row["capabilities"]["template_sha256"]
    assert row["prices"] == {"input": 1.0, "cached_input": None, "output": 2.0}
    assert row["headers"] == {"X-Team": "kernels"}
    assert KEY not in json.dumps(row) + probed.output
    refused = run("endpoint", "probe", "local", PROBE_KEY="wrong")
    assert (refused.exit_code, "unauthorised" in refused.output) == (1, True)
    assert run("endpoint", "remove", "local").exit_code == 0
    assert "no endpoint 'local'" in run("endpoint", "probe", "local").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "host:80", "--model", "m"], "base_url"),
        (["--url", "http://h/v1", "--model", "m", "--key-env", "sk-123"], "environment variable"),
        (["--url", "http://h/v1", "--model", "m", "--extra", "[1]"], "JSON object"),
        (["--url", "http://h/v1", "--model", "m", "--header", "Authorization=x"], "secret"),
    ],
)
def test_bad_endpoints_are_refused(run: Run, arguments: list[str], said: str):
    done = run("endpoint", "add", "bad", *arguments)
    assert (done.exit_code, said in done.output) == (2, True)
    assert "sk-123" not in done.output


def test_a_server_without_seeds_is_found_out():
    with running(SCRIPT, Behaviour(honours_seed=False)) as address:
        found = probes.probe(endpoint(address, "vllm"))
    assert found.seed is False
    assert any("seeds are not honoured" in one for one in found.warnings)


@pytest.mark.parametrize(
    ("dialect", "ids"), [("vllm", True), ("sglang", True), ("chat", False), ("anthropic", False)]
)
def test_abilities_are_those_of_the_dialect(address: str, dialect: str, ids: bool):
    found = probes.probe(endpoint(address, dialect), key=KEY)
    assert (found.reachable, found.error, found.usage) == (True, None, True)
    assert found.prompt_token_ids == ids
    assert found.token_ids == (ids or dialect == "chat")  # the scripted server spells tokens as ids


def test_a_server_that_is_not_there_is_told():
    found = probes.probe(endpoint("http://127.0.0.1:1/v1", "chat"))
    assert (found.reachable, found.error is not None) == (False, True)


def test_prompts_are_added_shown_and_compared(run: Run):
    assert "comes with Assay" in run("prompt", "list").output
    assert "{feedback}" in run("prompt", "show", "dr_kernel", "--kind", "feedback").output
    bad = run("prompt", "add", "mine", "--file", "-", text="{reference} {devise}")
    assert (bad.exit_code, "unknown placeholder {devise}" in bad.output) == (2, True)
    added = run("prompt", "add", "mine", "--file", "-", text="Faster, please:\n{reference}\n")
    assert (added.exit_code, "mine@" in added.output) == (0, True)
    assert (
        "stored already"
        in run("prompt", "add", "mine", "--file", "-", text="Faster, please:\n{reference}").output
    )
    differing = run("prompt", "diff", "assay", "mine")
    assert (differing.exit_code, "+Faster, please:" in differing.output) == (1, True)
    assert run("prompt", "diff", "mine", "mine").exit_code == 0
    same = json.loads(run("prompt", "diff", "mine", "mine", "--json").stdout)
    assert (same["differ"], same["diff"]) == (False, [])
    [version] = [
        one for one in json.loads(run("prompt", "list", "--json").stdout) if one["name"] == "mine"
    ]
    assert version["placeholders"] == ["reference"]
    shown = run("prompt", "show", f"mine@{version['sha256'][:8]}", "--json")
    assert json.loads(shown.stdout)["body"] == "Faster, please:\n{reference}"
