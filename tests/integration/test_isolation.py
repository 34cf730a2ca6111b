"""The evaluator on its own: real zygote, real sandbox, real processes; no database and no queue."""

import re
import threading
from pathlib import Path

import pytest

from app.domain.evaluation import Status
from app.domain.other_timings import DeviceTiming
from tests.integration.isolated import HONEST, REFERENCE, in_forward, job, run
from workers.sandbox import layers, toolchain
from workers.worker import referee_client


def test_what_the_problem_chooses_of_numerics_holds_for_the_candidate_and_is_stored(
    device_referee: referee_client.RefereeClient,
) -> None:
    chooses = b"import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n" + REFERENCE
    looks = HONEST.replace(
        b"class ModelNew(", b"FOUND = torch.backends.cuda.matmul.allow_tf32\nclass ModelNew("
    )
    says = looks.replace(
        b"        return torch.relu",
        b"        print('TF32:', FOUND, flush=True)\n        return torch.relu",
    )
    for reference, found, words in (
        (REFERENCE, "TF32: False", "matmul fp32, convolution TF32, rnn TF32"),
        (chooses, "TF32: True", "matmul TF32, convolution TF32, rnn TF32"),
    ):
        evaluation = device_referee.run(job(says, reference)).evaluation
        assert evaluation.status is Status.PASSED, evaluation.error
        assert found in evaluation.testimony.stdout
        assert evaluation.environment.numerics == words


def test_the_code_of_kernels_comes_beside_the_evaluation(
    device_referee: referee_client.RefereeClient,
) -> None:
    zoo = Path(__file__).parents[1] / "zoo"
    reference = (zoo / "problems" / "row_softmax.py").read_bytes()
    candidate = (zoo / "honest" / "row_softmax_triton.py").read_bytes()
    measured = device_referee.run(job(candidate, reference, "triton", deadline_s=60))
    assert measured.evaluation.status is Status.PASSED, measured.evaluation.error
    assert [(each.kernel, each.form) for each in measured.codes] == [
        ("softmax", "ttir"),
        ("softmax", "ttgir"),
        ("softmax", "ptx"),
    ]
    assert ".visible .entry softmax(" in measured.codes[-1].text
    assert device_referee.run(job(HONEST)).codes == ()


def test_an_honest_candidate_passes_with_a_speedup_and_its_interval(
    device_referee: referee_client.RefereeClient,
) -> None:
    measured = device_referee.run(job(HONEST, timing_budget_s=0.5))
    evaluation = measured.evaluation
    assert evaluation.status is Status.PASSED, evaluation.error
    assert evaluation.timing is not None
    assert evaluation.timing.ci_low <= evaluation.timing.speedup <= evaluation.timing.ci_high
    assert evaluation.correctness is not None
    assert (
        evaluation.correctness.calls >= 5 + 2 * evaluation.timing.groups
    )  # every timed call was verified
    assert evaluation.correctness.failed_calls == 0
    assert b"traceEvents" in measured.timeline


def test_kernelgyms_figure_stands_beside_assays(
    device_referee: referee_client.RefereeClient,
) -> None:
    evaluation = run(device_referee, HONEST, timing_budget_s=0.1, protocol="kernelgym")
    assert evaluation.status is Status.PASSED, evaluation.error
    assert evaluation.timing is not None
    events = evaluation.timing.event_timing
    assert events is not None
    assert events.trials == 100
    assert events.speedup == pytest.approx(events.reference_us / events.candidate_us)
    assert (
        0.2 < events.speedup / evaluation.timing.speedup < 5
    )  # another clock, the same two functions
    usual = run(device_referee, HONEST, timing_budget_s=0.1).timing
    assert usual is not None
    assert usual.event_timing is None


def test_the_device_time_of_the_cpu_is_not_measured_and_says_why(
    device_referee: referee_client.RefereeClient,
) -> None:
    evaluation = run(device_referee, HONEST, timing_budget_s=0.1, device_time=True)
    assert evaluation.status is Status.PASSED, evaluation.error
    assert evaluation.timing is not None
    assert evaluation.timing.device == DeviceTiming(error="CUDA graphs need a GPU")
    assert evaluation.stage_ms["device_time"] < 100
    usual = run(device_referee, HONEST, timing_budget_s=0.1)
    assert usual.timing is not None
    assert usual.timing.device is None
    assert "device_time" not in usual.stage_ms


def test_a_reference_that_returns_the_same_buffer_every_time_is_no_constant(
    device_referee: referee_client.RefereeClient,
) -> None:
    reference = REFERENCE.replace(b"class Model(", b"BUFFER = torch.empty(16, 32)\nclass Model(")
    reference = reference.replace(b"return torch.relu(", b"return torch.mul(torch.relu(").replace(
        b" * scale", b", scale, out=BUFFER)"
    )
    found = device_referee.run(job(HONEST, reference)).evaluation
    assert found.status is Status.PASSED, found.error
    assert found.correctness is not None
    assert found.correctness.output_constant is False
    assert found.operators is not None
    assert found.operators.startswith("o1:")
    assert "input 0" not in found.correctness.insensitive_to


def test_seeds_are_secret_and_differ(device_referee: referee_client.RefereeClient) -> None:
    seeds = {run(device_referee, HONEST).seed for _ in range(3)}
    assert len(seeds) == 3


COMPILED = """
import torch
from torch.utils.cpp_extension import load_inline
CPP = '''
#include <pybind11/pybind11.h>
#include <cstdint>
void relu_scaled(int64_t from, int64_t to, int64_t count, float scale) {
    auto x = reinterpret_cast<float*>(from); auto y = reinterpret_cast<float*>(to);
    for (int64_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] * scale : 0;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("relu_scaled", &relu_scaled); }
'''
module = load_inline("quick", CPP, no_implicit_headers=True)
class ModelNew(torch.nn.Module):
    def __init__(self, width, *, bias):
        super().__init__()
        self.linear = torch.nn.Linear(width, width, bias=bias)
    def forward(self, x, scale):
        x = self.linear(x).contiguous()
        y = torch.empty_like(x)
        module.relu_scaled(x.data_ptr(), y.data_ptr(), x.numel(), scale)
        return y
"""


@pytest.mark.skipif(
    bool(toolchain.missing(cuda=False)), reason="no C++ compiler or no ninja on this host"
)
def test_c_plus_plus_is_compiled_within_the_layers(
    device_referee: referee_client.RefereeClient,
) -> None:
    evaluation = run(device_referee, COMPILED.encode(), call_timeout_s=60, deadline_s=90)
    assert evaluation.status is Status.PASSED, evaluation.error


def test_the_layers_are_reported(device_referee: referee_client.RefereeClient) -> None:
    environment = run(device_referee, HONEST).environment
    assert "no new privileges" in environment.sandbox
    assert "resource limits" in environment.sandbox
    assert not set(environment.sandbox) & set(environment.sandbox_missing)


def test_output_is_capped_and_does_not_block(device_referee: referee_client.RefereeClient) -> None:
    evaluation = run(device_referee, in_forward("print('x' * 10_000_000)"))
    assert evaluation.status is Status.PASSED
    assert 0 < len(evaluation.testimony.stdout) <= 16 << 10


def test_a_candidate_too_large_is_told_so(device_referee: referee_client.RefereeClient) -> None:
    evaluation = run(device_referee, HONEST + b"#" * (5 << 20))
    assert evaluation.status is Status.COMPILE_ERROR
    assert evaluation.error is not None
    assert "5,24" in evaluation.error.message
    assert "1,048,576" in evaluation.error.message


REFERENCES = {
    "raises": (b"raise RuntimeError('mine')", "mine"),
    "has no Model": (b"def get_inputs(): return []", "defines no Model"),
    "has no get_inputs": (b"class Model: pass", "defines no get_inputs"),
    "ends the process": (b"import os; os._exit(0)", "exited with code 0"),
    "takes an object that cannot be handed over": (
        REFERENCE.replace(b"1.5]", b"object()]"),
        "cannot be handed",
    ),
    "changes shapes": (
        b"drawn = []\n"
        + REFERENCE.replace(
            b"torch.randn(16, 32)", b"torch.randn(len(drawn.append(0) or drawn), 32)"
        ),
        "expected outputs of constant shape",
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_failing_reference_is_not_blamed_on_the_candidate(
    device_referee: referee_client.RefereeClient, name: str
) -> None:
    reference, message = REFERENCES[name]
    evaluation = device_referee.run(job(HONEST, reference)).evaluation
    assert evaluation.status is Status.INVALID
    assert not evaluation.valid
    assert evaluation.error is not None
    assert message in evaluation.error.message
    assert run(device_referee, HONEST).status is Status.PASSED


def test_cuda_on_the_cpu_device_is_invalid(device_referee: referee_client.RefereeClient) -> None:
    evaluation = device_referee.run(job(HONEST, backend="cuda")).evaluation
    assert evaluation.status is Status.INVALID
    assert evaluation.error is not None
    assert evaluation.error.kind == "needs_gpu"


def test_a_dead_referee_is_our_fault_and_is_replaced(
    device_referee: referee_client.RefereeClient,
) -> None:
    run(device_referee, HONEST)
    assert device_referee._process is not None
    threading.Timer(0.5, device_referee._process.kill).start()
    with pytest.raises(referee_client.InfrastructureError, match="referee ended"):
        device_referee.run(job(in_forward("while True: pass"), call_timeout_s=60, deadline_s=60))
    assert run(device_referee, HONEST).status is Status.PASSED


def test_cancelling_ends_a_running_job_at_once(
    device_referee: referee_client.RefereeClient,
) -> None:
    threading.Timer(0.5, device_referee.cancel).start()
    with pytest.raises(referee_client.CancelledError):
        device_referee.run(job(in_forward("while True: pass"), call_timeout_s=60, deadline_s=60))
    assert run(device_referee, HONEST).status is Status.PASSED


def test_empty_files_are_limited_in_number(device_referee: referee_client.RefereeClient) -> None:
    if any("own mounts" in layer for layer in device_referee.start().sandbox_missing):
        pytest.skip("candidates have no scratch folder of their own on this host")
    makes = in_forward("""
        import os
        for folder in ("/tmp", "/dev/shm"):
            made = 0
            try:
                while made < 100_000:
                    os.close(os.open(f"{folder}/{made}", os.O_CREAT))
                    made += 1
            except OSError as error:
                print(folder, made, error.strerror, flush=True)
        """)
    said = run(device_referee, makes).testimony.stdout
    for folder in ("/tmp", "/dev/shm"):
        (found,) = set(re.findall(rf"^{folder} (\d+) No space left on device$", said, re.M)[:1])
        assert layers.SCRATCH_INODES // 2 < int(found) <= layers.SCRATCH_INODES


def test_a_launch_whose_failure_the_source_catches_is_named(
    device_referee: referee_client.RefereeClient,
) -> None:
    zoo = Path(__file__).parents[1] / "zoo"
    reference = (zoo / "problems" / "row_softmax.py").read_bytes()
    candidate = (zoo / "hacks" / "fallback_on_error.py").read_bytes()
    evaluation = device_referee.run(job(candidate, reference, "triton", deadline_s=60)).evaluation
    assert evaluation.status is Status.PASSED, evaluation.error
    (failure,) = evaluation.testimony.failures
    assert failure.startswith("kernel softmax: ")
    assert "power of 2" in failure
    assert run(device_referee, HONEST).testimony.failures == ()
