"""verifiers' own runner plays sessions: its environment, interception server and
scoring, with a scripted model.

Skipped where verifiers is not installed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.client import Client
from tests.integration.test_session_trainers import (
    FAILS,
    PASSES,
    REFERENCE,
    SPEC,
    _worker,  # noqa: F401 (a fixture)
    stored,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages
vf: Any = pytest.importorskip("verifiers.v1")


@pytest.fixture
def model() -> Iterator[str]:
    """URL of a chat server: a wrong answer first, a right one after feedback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = (
                PASSES if any(each["role"] == "assistant" for each in asked["messages"]) else FAILS
            )
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": said},
            }
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            body = {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kernel-assay` as its distribution installs it, and a harness that is one call
    in this process.
    """
    from openai import AsyncOpenAI

    from app.integrations import verifiers

    class OneCall(vf.Harness[vf.HarnessConfig]):
        SUPPORTS_RESUME, EXECUTES_CODE, NEEDS_CONTAINER, APPENDS_SYSTEM_PROMPT = (
            True,
            False,
            False,
            True,
        )

        async def launch(
            self,
            ctx: Any,
            trace: Any,
            runtime: Any,
            endpoint: str,
            secret: str,
            mcp_urls: Any,
            data: Any,
            **_: Any,
        ) -> Any:
            _, prompt = self.resolve_prompt(data)
            told = [{"role": each.role, "content": each.content} for each in prompt]
            async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as server:
                await server.chat.completions.create(model=ctx.model, messages=told)
            return vf.ProgramResult(0, "", "")

    harness = ModuleType("one_call")
    harness.OneCall, harness.__all__ = OneCall, ["OneCall"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "one_call", harness)
    monkeypatch.setitem(sys.modules, "kernel_assay", verifiers)


def episode_of(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An episode that verifiers itself plays with the model."""
    from verifiers.v1.clients import ModelContext
    from verifiers.v1.configs.client import EvalClientConfig
    from verifiers.v1.utils.loaders import environment_class, load_environment

    monkeypatch.setenv("NO_KEY", "none")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"reference_code": REFERENCE, "entry_point": "Model"}) + "\n")
    kind = environment_class("kernel-assay")
    config = vf.SingleAgentEnvConfig(
        taskset={"id": "kernel-assay", "problems": str(rows), "spec": SPEC, "run": "vf"},
        agent={"harness": {"id": "one-call"}, "runtime": {"type": "subprocess"}},
    )
    env = load_environment(config)
    assert type(env) is kind
    (task,) = env.taskset
    ctx = ModelContext(model="m", client=EvalClientConfig(base_url=model, api_key_var="NO_KEY"))

    async def played() -> Any:
        async with env.serving():
            return await env.run_episode(task, ctx)

    return asyncio.run(played())


@pytest.mark.usefixtures("_worker", "plugins")
def test_a_trace_has_the_reward_of_every_turn(
    connected: Client, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode = episode_of(model, tmp_path, monkeypatch)
    assert [str(each) for each in episode.errors] == []
    (trace,) = episode.traces
    assert (trace.ok, trace.errors) == (True, [])
    assert trace.info["turn_rewards"] == [-0.3, -0.1]
    assert trace.reward == pytest.approx(-0.4)
    assert trace.metrics["correct"] == 1.0
    assert trace.info["stop_reason"] == "solved"
    (kept,) = stored(connected)
    assert [turn.response for turn in kept.turns] == [FAILS, PASSES]
    assert kept.run == "vf"


@pytest.mark.usefixtures("_worker", "plugins")
def test_a_fault_of_the_evaluator_is_an_error_of_the_trace(
    connected: Client, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PASSES", PASSES.replace("passes", "fault"))
    (trace,) = episode_of(model, tmp_path, monkeypatch).traces
    assert trace.has_error
    assert trace.rewards == {}
    assert "evaluator_error" in str(trace.errors)
