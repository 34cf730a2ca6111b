"""The lines of app/integrations/README.md as they stand there, with each trainer's
own code on the CPU.

Differences: the device class, a local model, and one step.  verl's and verifiers' lines are
commands, which test_verl_main_ppo.py and test_session_verifiers.py run in parts.  Skipped
where a trainer is not installed.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import yaml

from app import export
from app.client import Client
from app.client.session import as_spec
from app.domain.dataset.selection import Source
from app.domain.problem import Problem
from app.export import Spec
from app.export.writers import rows_of
from app.store.trajectory import problems
from tests.integration import fakes, tiny_trainer
from tests.integration.test_environment_servers import serving
from tests.integration.test_session_trainers import PASSES, REFERENCE, stored

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

README = Path(__file__).parents[2] / "app/integrations/README.md"


@pytest.fixture(autouse=True)
def _worker(start_worker: Callable[..., Popen[bytes]]) -> None:
    start_worker(module=fakes.WORKER)


def lines(section: str) -> str:
    """The code of a section, for the CPU device."""
    [text] = re.findall(
        rf"^### {section}\n(.*?)(?=^##)", README.read_text(), re.DOTALL | re.MULTILINE
    )
    code = "\n".join(line[4:] for line in text.splitlines() if not line or line.startswith("    "))
    return code.replace("h200", "cpu")


def exported(client: Client, layout: str, out: Path) -> None:
    """`assay export --from problems` of one problem without attempts."""
    with client.database.begin() as connection:
        problems.add(
            connection, [Problem(name="one", source_set="own", reference=REFERENCE.encode())]
        )
    export.export(
        client.database, Spec(format=layout, source=Source.PROBLEMS, val_fraction=0.0), out
    )


def test_trl(connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl", minversion="1.16")
    exported(connected, "trl_prompts", tmp_path / "prompts")
    tiny_trainer.model().save_pretrained(tmp_path / "cold-start")
    tiny_trainer.tokenizer().save_pretrained(tmp_path / "cold-start")
    monkeypatch.chdir(tmp_path)
    small = (
        'GRPOConfig("out", num_generations=2, per_device_train_batch_size=2, max_steps=1,'
        " max_completion_length=6, "
    )
    small += "use_cpu=True, bf16=False, report_to=[])"
    code = lines("TRL")
    assert 'GRPOConfig("out", num_generations=8)' in code
    exec(code.replace('GRPOConfig("out", num_generations=8)', small), {})
    assert [(each.run, len(each.turns)) for each in stored(connected)] == [
        ("trloo-1 step 0", 3)
    ] * 2


def test_skyrl(connected: Client, tmp_path: Path) -> None:
    gym = pytest.importorskip("skyrl_gym")
    exported(connected, "skyrl_prompts", tmp_path / "prompts")
    [row] = rows_of(next((tmp_path / "prompts").glob("data/train*")))
    gym.envs.registration.registry.pop("kernel_assay", None)
    names: dict[str, Any] = {"row": row}
    exec(lines("SkyRL"), names)
    assert "class Model" in names["messages"][0]["content"]
    assert names["environment"].step(PASSES)["reward"] is not None
    names["environment"].close()
    assert [(each.run, len(each.turns)) for each in stored(connected)] == [("sky-1", 1)]


def test_openenv(connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openenv")
    exported(connected, "nemo_gym_sessions", tmp_path / "prompts")
    monkeypatch.chdir(tmp_path)
    server, trainer = lines("OpenEnv").split("# in the trainer")
    names: dict[str, Any] = {
        "model": lambda messages: PASSES if "class Model" in messages[0]["content"] else ""
    }
    exec(server, names)
    with serving(names["app"]) as port:
        exec(trainer.replace("8001", str(port)), names)
    assert names["result"].done
    assert [(each.run, len(each.turns)) for each in stored(connected)] == [("env-1", 3)]


def test_nemo_gym() -> None:
    pytest.importorskip("nemo_gym")
    pytest.importorskip("resources_servers.gymnasium")
    from responses_api_agents.gymnasium_agent.app import GymnasiumAgentConfig

    module, config = lines("NeMo Gym").split(
        "# resources_servers/kernel_assay/configs/kernel_assay.yaml"
    )
    names: dict[str, Any] = {"__name__": "app"}
    exec(module, names)
    told = yaml.safe_load(config)
    usual = {"name": "kernel_assay", "host": "127.0.0.1", "port": 1}
    kind = names["KernelServer"].model_fields["config"].annotation
    found = kind.model_validate(
        {**told["kernel_assay"]["resources_servers"]["kernel_assay"], **usual}
    )
    assert (found.run, found.spec) == ("gym-1", {"strategy": {"turns": 3}, "device_class": "cpu"})
    agent = told["kernel_assay_agent"]["responses_api_agents"]["gymnasium_agent"]
    assert GymnasiumAgentConfig.model_validate({**agent, **usual}).max_steps == 3


def test_verifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verifiers.v1")
    from pydantic_config import cli
    from verifiers.v1.cli.resolve import narrow_config, with_positional_taskset
    from verifiers.v1.configs.cli.eval import EvalConfig

    from app.integrations import verifiers

    monkeypatch.setitem(sys.modules, "kernel_assay", verifiers)
    words = shlex.split(lines("verifiers").replace("\\\n", " "))
    told = with_positional_taskset(words[words.index("vf-eval") + 1 :])
    monkeypatch.setattr(sys, "argv", ["vf-eval", *told])
    found = cli(narrow_config(EvalConfig, told))
    assert as_spec(found.env.taskset.spec).most_attempts == 3
    assert (found.env.taskset.run, found.env.taskset.spec["device_class"]) == ("vf-1", "cpu")


def test_commands_name_what_there_is(connected: Client, tmp_path: Path) -> None:
    """Layouts of verl and verifiers, the files that they make, and the recipes."""
    for section in ("verl", "verifiers"):
        words = [
            each
            for line in lines(section).replace("\\\n", " ").splitlines()
            for each in shlex.split(line)
        ]
        layout = words[words.index("--format") + 1]
        exported(connected, layout, tmp_path / section / "prompts")
        paths = [each.rpartition("=")[2] for each in words if "prompts/data/" in each]
        assert paths
        assert all((tmp_path / section / each).exists() for each in paths)
        recipes = [each.rpartition("=")[2] for each in words if "workers/training/recipes" in each]
        assert all((README.parents[2] / each).exists() for each in recipes)
