"""OpenEnv's and NeMo Gym's own servers, clients and agent around sessions, over HTTP.  Skipped
where the package is not installed; a worker that pretends to evaluate judges the answers.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import urllib3

from app.client import Client
from app.client.session import as_spec
from app.domain.request import RequestError
from tests.integration import fakes
from tests.integration.test_session_trainers import (
    FAILS,
    PASSES,
    REFERENCE,
    REWARDS,
    SCRIPT,
    SPEC,
    stored,
)
from tests.ports import free_port

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

LONG_S = 30.0
"""Time for a server to start on a loaded host."""


@pytest.fixture
def _worker(start_worker: Callable[..., Popen[bytes]]) -> None:
    start_worker(module=fakes.WORKER)


@contextmanager
def serving(app: Any) -> Iterator[int]:
    """The application in a thread's uvicorn; its port."""
    import uvicorn

    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="on")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + LONG_S
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield port
    server.should_exit = True
    thread.join(LONG_S)


@pytest.mark.usefixtures("_worker")
def test_openenv_plays_sessions_side_by_side(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("openenv")
    from openenv.core.generic_client import GenericEnvClient

    from app.integrations.openenv import application

    problems = tmp_path / "problems.jsonl"
    problems.write_text(json.dumps({"reference_code": REFERENCE, "entry_point": "Model"}) + "\n")
    app = application(SPEC, run="env", problems=problems)

    async def played(port: int, name: str, answers: list[str]) -> list[Any]:
        async with GenericEnvClient(base_url=f"http://127.0.0.1:{port}") as env:
            first = await env.reset(seed=7, episode_id=name, group=name, sample=3, step=2)
            assert (first.done, first.reward) == (False, None)
            assert "class Model" in first.observation["messages"][0]["content"]
            steps = [await env.step({"text": answer}) for answer in answers]
            state = await env.state()
            assert (state["episode_id"], state["step_count"]) == (name, len(answers))
            return steps

    async def all_played(port: int) -> list[list[Any]]:
        return list(
            await asyncio.gather(*(played(port, name, list(said)) for name, said in SCRIPT.items()))
        )

    with serving(app) as port:
        found = asyncio.run(all_played(port))
    for steps, (name, answers) in zip(found, SCRIPT.items(), strict=True):
        assert [step.reward for step in steps] == pytest.approx(REWARDS[name])
        assert [step.done for step in steps] == [False] * (len(answers) - 1) + [True]
        assert [len(step.observation["messages"]) for step in steps] == [3] * (len(answers) - 1) + [
            0
        ]
    kept = sorted(stored(connected), key=lambda each: str(each.label))
    assert [(each.run, each.label, len(each.turns)) for each in kept] == [
        ("env step 2", "g/3", 1),
        ("env step 2", "h/3", 2),
        ("env step 2", "i/3", 2),
    ]


@pytest.mark.usefixtures("_worker")
def test_openenv_tells_of_wrong_use_and_stores_what_a_lost_client_left(connected: Client) -> None:
    pytest.importorskip("openenv")
    from openenv.core.generic_client import GenericEnvClient

    from app.integrations.openenv import application

    async def played(port: int) -> None:
        async with GenericEnvClient(base_url=f"http://127.0.0.1:{port}") as env:
            with pytest.raises(RuntimeError, match="expected reset before step"):
                await env.step({"text": PASSES})
            with pytest.raises(RuntimeError, match="expected reference or problem_id, got neither"):
                await env.reset()
            await env.reset(reference=REFERENCE, entry_point="Model")
            step = await env.step({"text": FAILS, "truncated": False})
            assert not step.done

    with serving(application(SPEC, run="left")) as port:
        asyncio.run(played(port))
        deadline = time.monotonic() + LONG_S
        while not stored(connected):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert [(each.run, len(each.turns)) for each in stored(connected)] == [("left", 1)]
    with pytest.raises(RequestError, match="turns"):
        application({"strategy": {"turns": 0}})


@pytest.fixture
def _gym(monkeypatch: pytest.MonkeyPatch) -> None:
    """NeMo Gym without a command line, and with a client of the test's own event loop."""
    pytest.importorskip("nemo_gym")
    pytest.importorskip("resources_servers.gymnasium")
    from nemo_gym import global_config, server_utils

    monkeypatch.setattr(global_config, "_GLOBAL_CONFIG_DICT", global_config.DictConfig({}))
    monkeypatch.setattr(server_utils, "_GLOBAL_AIOHTTP_CLIENT", None)


def scripted_policy(answers: Callable[[str], list[str]]) -> Any:
    """A model server of NeMo Gym that gives scripted answers."""
    from fastapi import FastAPI
    from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

    policy = FastAPI()

    @policy.post("/v1/responses")
    def respond(body: dict[str, Any]) -> dict[str, Any]:
        asked = NeMoGymResponseCreateParamsNonStreaming.model_validate(body)
        messages = [one if isinstance(one, dict) else one.model_dump() for one in asked.input]
        said = [one for one in messages if one["role"] == "assistant"]
        text = answers(messages[0]["content"])[len(said)]
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {
            "id": f"m{len(said)}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
        }
        return {
            "id": "r",
            "created_at": 0.0,
            "model": "script",
            "object": "response",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [{**message, "content": content}],
        }

    return policy


def gym_agent(stack: ExitStack, answers: Callable[[str], list[str]], spec: dict[str, Any]) -> int:
    """NeMo Gym's agent over HTTP, with its resources server and a scripted policy; its port."""
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf
    from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig

    from app.integrations.nemo_gym import KernelConfig, KernelServer

    policy = scripted_policy(answers)

    def table(kind: str, server: str, port: int) -> dict[str, Any]:
        return {kind: {server: {"entrypoint": "app.py", "host": "127.0.0.1", "port": port}}}

    head = BaseServerConfig(host="127.0.0.1", port=0)
    config = {
        "policy": table("responses_api_models", "policy", stack.enter_context(serving(policy)))
    }
    usual = {"host": "127.0.0.1", "port": 0, "entrypoint": "app.py"}
    client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create(config))
    kernels = KernelServer(
        config=KernelConfig(name="kernels", domain="coding", spec=spec, run="gym", **usual),
        server_client=client,
    )
    web = kernels.setup_webserver()
    kernels.setup_exception_middleware(web)
    config["kernels"] = table("resources_servers", "kernels", stack.enter_context(serving(web)))
    client.global_config_dict = OmegaConf.create(config)
    agent = GymnasiumAgent(
        config=GymnasiumAgentConfig(
            name="agent",
            resources_server={"type": "resources_servers", "name": "kernels"},
            model_server={"type": "responses_api_models", "name": "policy"},
            max_steps=2,
            **usual,
        ),
        server_client=client,
    )
    web = agent.setup_webserver()
    agent.setup_exception_middleware(web)
    return stack.enter_context(serving(web))


def gym_row(sample: int, *, asked: list[dict[str, str]] | None = None) -> dict[str, Any]:
    problem = {
        "reference_code": REFERENCE,
        "entry_point": "Model",
        "backend": "triton",
        "problem_id": None,
    }
    return {
        "responses_create_params": {"input": asked or []},
        "verifier_metadata": problem,
        "_ng_task_index": 4,
        "_ng_rollout_index": sample,
    }


def run(port: int, row: dict[str, Any]) -> tuple[int, Any]:
    said = urllib3.request(
        "POST", f"http://127.0.0.1:{port}/run", json=row, timeout=LONG_S, retries=False
    )
    return said.status, said.json()


@pytest.mark.usefixtures("_worker", "_gym")
def test_nemo_gyms_agent_plays_sessions(connected: Client) -> None:
    seen: list[str] = []

    def answers(prompt: str) -> list[str]:
        seen.append(prompt)
        return SCRIPT["h"]

    with ExitStack() as stack:
        status, found = run(gym_agent(stack, answers, dict(SPEC)), gym_row(1))
    assert status == 200
    assert found["reward"] == pytest.approx(sum(REWARDS["h"]))
    assert found["info"]["turn_rewards"] == pytest.approx(REWARDS["h"])
    assert (found["terminated"], found["truncated"]) == (True, False)
    assert (found["info"]["stop_reason"], found["info"]["correct"]) == ("solved", 1.0)
    assert "class Model" in seen[0]
    assert as_spec(SPEC).most_attempts == len(seen) == 2
    assert [(each.run, each.label, len(each.turns)) for each in stored(connected)] == [
        ("gym", "4/1", 2)
    ]


@pytest.mark.usefixtures("_gym")
def test_nemo_gym_scores_no_fault_and_takes_no_other_prompt(
    connected: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.client import session as sessions

    monkeypatch.setattr(sessions, "_evaluated", lambda said, *_: [None] * len(said))
    with ExitStack() as stack:
        port = gym_agent(stack, lambda _: SCRIPT["h"], dict(SPEC))
        status, found = run(port, gym_row(0))
        assert status == 500
        assert "no score: evaluator_error" in str(found)
        status, found = run(port, gym_row(0, asked=[{"role": "user", "content": "?"}]))
        assert status == 500
        assert "expected none, because the session writes the prompt" in str(found)
    assert [len(each.turns) for each in stored(connected)] in ([], [1])
