"""Baselines for real: torch.compile in the sandbox, and the outcome where one cannot
be measured.
"""

import math
import shutil
from uuid import uuid4

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from workers.sandbox import toolchain
from workers.worker import referee_client

REFERENCE = b"""
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
    def forward(self, x):
        return torch.relu(x * self.weight + 1) * 2 - x
def get_inputs(): return [torch.randn(64, 256)]
def get_init_inputs(): return [256]
"""
SHY = REFERENCE.replace(
    b"        super().__init__()\n",
    b"        super().__init__()\n"
    b"        if type(self).__mro__[1] is not nn.Module: raise TypeError('no heirs, please')\n",
)


def _run(
    device_referee: referee_client.RefereeClient, reference: bytes, *names: str, before: bytes = b""
) -> Evaluation:
    candidate = before + REFERENCE.replace(b"class Model(", b"class ModelNew(")
    options = JobOptions(
        baselines=names, timing_budget_s=0.2, deadline_s=20, call_timeout_s=5, variants=False
    )
    job = Job(
        job_id=uuid4(), reference=reference, candidate=candidate, backend="torch", options=options
    )
    return device_referee.run(job).evaluation


def test_a_candidate_is_compared_with_the_compiled_reference(
    device_referee: referee_client.RefereeClient,
) -> None:
    evaluation = _run(device_referee, REFERENCE, "compile")
    assert evaluation.status is Status.PASSED, evaluation.error
    assert evaluation.timing is not None
    (found,) = evaluation.timing.baselines
    assert found.name == "compile"
    if shutil.which("g++", path=toolchain.environment()["PATH"]) is None:
        assert "No working C++ compiler found" in (found.error or "")
        return
    assert found.error is None
    assert found.speedup is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low <= found.speedup <= found.ci_high
    assert math.log(found.ci_high / found.ci_low) >= math.log(
        evaluation.timing.ci_high / evaluation.timing.ci_low
    )
    assert evaluation.stage_ms["baselines"] > 500  # it was compiled
    again = _run(device_referee, REFERENCE, "compile")
    assert again.timing is not None
    assert again.timing.baselines[0].baseline_us == found.baseline_us  # measured once
    assert again.stage_ms["baselines"] < 100


def test_a_reference_that_cannot_be_compiled_is_invalid(
    device_referee: referee_client.RefereeClient,
) -> None:
    evaluation = _run(device_referee, SHY, "compile")
    assert evaluation.status is Status.PASSED, evaluation.error
    assert evaluation.timing is not None
    (found,) = evaluation.timing.baselines
    assert (found.speedup, found.baseline_us) == (None, None)
    assert found.error == "runtime error: TypeError: no heirs, please"
    assert _run(device_referee, REFERENCE).status is Status.PASSED


def test_a_confined_process_has_a_user_and_a_folder_for_its_compiler(
    device_referee: referee_client.RefereeClient,
) -> None:
    """torch asks for the name before it compiles; a uid without an account has none
    but that of the environment.
    """
    before = (
        b"import getpass, os\nassert getpass.getuser() and"
        b" os.access(os.environ['TORCHINDUCTOR_CACHE_DIR'], os.W_OK)"
    )
    assert _run(device_referee, REFERENCE, before=before).status is Status.PASSED
