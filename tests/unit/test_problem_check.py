"""Checks of problems: those of a checkout, the candidate that is the reference, and the rows."""

import json
import sys
import types
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from app.cli import problems
from app.domain import kernelbench, problem_check
from app.domain.evaluation import Environment, Evaluation, EvaluationError, ProblemMemory, Status
from app.domain.output_checks import Correctness
from app.domain.problem import Problem
from app.domain.verdict import Subject
from app.judge import judge
from tests.timings import timing
from tests.unit.measurements import early

REFERENCE = b"""
class Model:
    pass
def get_inputs(): return []
def get_init_inputs(): return []
"""

HERE = Environment(
    device_class="cpu", device_name="", device_id="", node="", python="", torch="", triton=""
)

PASSED = problem_check.CheckRow(
    name="1_x",
    level=1,
    status="passed",
    verdict="clean",
    seconds=2.0,
    speedup=1.01,
    ci_low=0.99,
    ci_high=1.03,
    groups=4,
    reference_us=100.0,
    floor_us=25.0,
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for level, name in ((1, "10_b"), (1, "2_a"), (3, "1_c")):
        path = tmp_path / "KernelBench" / f"level{level}" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(REFERENCE)
    return tmp_path


def test_a_checkout_is_read_in_the_order_of_levels_and_numbers(checkout: Path) -> None:
    files = kernelbench.problem_files(checkout)
    assert list(files) == [(1, 2), (1, 10), (3, 1)]
    assert kernelbench.problem_files(checkout / "KernelBench") == files
    problem = kernelbench.problem(files[3, 1], 3)
    assert (problem.name, problem.level, problem.source_set) == ("1_c", 3, "kernelbench")


def test_a_checkout_without_problems_and_a_file_without_a_model_are_named(
    checkout: Path, tmp_path: Path
) -> None:
    with pytest.raises(kernelbench.CheckoutError, match="expected KernelBench/level1"):
        kernelbench.problem_files(tmp_path / "nowhere")
    path = checkout / "KernelBench/level1/2_a.py"
    path.write_text("def get_inputs(): return []")
    with pytest.raises(
        kernelbench.CheckoutError, match=r"2_a\.py: expected a problem that defines Model$"
    ):
        kernelbench.problem(path, 1)


@pytest.mark.parametrize(
    "source",
    [
        "from x import Model\nget_inputs = lambda: []",
        "class Net: ...\nModel = Net\nget_inputs: object = list",
        (
            "try:\n    import x as Model\nexcept ImportError:\n    Model = None\nif True:\n    def"
            " get_inputs(): ..."
        ),
    ],
)
def test_a_problem_may_bind_its_names_in_any_way_and_needs_no_constructor_arguments(
    source: str, tmp_path: Path
) -> None:
    path = tmp_path / "1_a.py"
    path.write_text(source)
    assert kernelbench.problem(path, 1).reference == source.encode()
    path.write_text(source.replace("Model", "Other"))
    with pytest.raises(kernelbench.CheckoutError, match=r"defines Model$"):
        kernelbench.problem(path, 1)


def test_the_candidate_of_a_check_is_the_reference_under_another_name() -> None:
    module = types.ModuleType("candidate")
    exec(problem_check.identity(REFERENCE.replace(b"Model", b"Net"), "Net"), module.__dict__)
    assert module.NetNew is module.Net
    assert problem_check.options(0.5).timing_budget_s == 0.5


def test_what_a_row_says() -> None:
    assert PASSED.holds_one
    assert not PASSED.is_off
    assert PASSED.roofline_share == 0.5  # the detectors' limit is half of the time for its bytes
    assert replace(PASSED, limit_us=80.0).roofline_share == 0.8
    outcomes = {
        "passed": PASSED,
        "accused": replace(PASSED, verdict="suspect", findings=("slow_reference",)),
        "blamed": problem_check.CheckRow(
            name="x", level=1, status="out_of_memory", verdict="clean", error_kind="out_of_memory"
        ),
        "invalid": problem_check.CheckRow(
            name="x",
            level=1,
            status="invalid",
            verdict="clean",
            error_kind="problem_too_large",
            error="needs 200 GB; out of memory",
        ),
        "our fault": problem_check.CheckRow(
            name="x",
            level=1,
            status="invalid",
            verdict="clean",
            error_kind="reference_failed",
            error="OutOfMemoryError: CUDA out of memory.",
        ),
    }
    assert {row.outcome: row for row in outcomes.values()} == outcomes


def test_a_degenerate_problem_is_no_accusation_of_its_reference() -> None:
    degenerate = replace(PASSED, name="z", verdict="suspect", findings=("degenerate_problem",))
    accused = replace(degenerate, findings=("degenerate_problem", "slow_reference"))
    assert (degenerate.outcome, accused.outcome) == ("invalid", "accused")
    said = problem_check.summary([degenerate, accused], 60.0)
    assert said["kinds"] == {"passed: degenerate_problem": 1}
    assert (len(said["invalid"]), len(said["accused"])) == (1, 1)


def test_a_problem_that_proves_little_is_named_though_its_reference_passed() -> None:
    correctness = Correctness(calls=5, failed_calls=0, trials=(), mode="eval", output_constant=True)
    evaluation = Evaluation(
        status=Status.PASSED,
        environment=HERE,
        seed="",
        correctness=correctness,
        timing=timing(speedup=1.0, ci_low=0.98, ci_high=1.02, blocks=early(4).timing.blocks),
    )
    subject = Subject(evaluation=evaluation, backend="torch", candidate=b"", reference=b"")
    problem = Problem(name="72_x", reference=REFERENCE, level=1)
    row = problem_check.row(problem, evaluation, judge(subject, problem_check.POLICY), 1.5)
    assert (row.outcome, row.findings) == ("passed", ())
    assert "same answer for different inputs" in row.degenerate
    assert f"degenerate_problem: {row.degenerate}" in problem_check.line(row)
    assert problem_check.summary([row, PASSED], 1.0)["degenerate"] == ["L1/72_x"]


def test_the_rate_is_of_the_problems_that_were_evaluated() -> None:
    assert problem_check.summary([PASSED, PASSED], 60.0, evaluated=1)["per_minute"] == 1.0
    assert problem_check.summary([PASSED, PASSED], 0.2, evaluated=0)["per_minute"] is None


def test_a_row_of_an_evaluation_and_its_line() -> None:
    error = EvaluationError(kind="reference_failed", message="the reference\nis random")
    evaluation = Evaluation(status=Status.INVALID, environment=HERE, seed="", error=error)
    verdict = judge(
        Subject(evaluation=evaluation, backend="torch", candidate=b"", reference=b""),
        problem_check.POLICY,
    )
    row = problem_check.row(
        Problem(name="72_x", reference=REFERENCE, level=1), evaluation, verdict, 1.5
    )
    assert row.outcome == "invalid"
    assert problem_check.line(row).split() == [
        "L1/72_x",
        "invalid",
        "clean",
        "1.5",
        "s",
        "reference_failed:",
        "the",
        "reference",
        "is",
        "random",
    ]
    assert "1.010 [0.990, 1.030], 4 groups" in problem_check.line(PASSED)
    assert "1.0 is outside" in problem_check.line(replace(PASSED, ci_low=1.001))


def test_a_row_is_read_back_from_json_with_its_memory_and_without_what_is_unknown() -> None:
    memory = ProblemMemory(
        input_bytes=10, output_bytes=4, parameter_bytes=100, call_bytes=None, truth_bytes=None
    )
    row = replace(PASSED, memory=memory, findings=("a",), truth="fp64 on the host")
    stored = json.loads(json.dumps(asdict(row))) | {"of another version": 1}
    assert problem_check.read(stored) == row
    assert memory.reference_bytes == 114
    assert replace(memory, call_bytes=50).reference_bytes == 160
    assert problem_check.line(row).endswith("truth fp64 on the host  a")


def test_the_summary_names_what_is_not_as_it_should_be() -> None:
    off = replace(PASSED, name="2_y", speedup=1.10, ci_low=1.05, ci_high=1.15, seconds=4.0)
    blamed = problem_check.CheckRow(
        name="3_z", level=2, status="timeout", verdict="clean", seconds=9.0, error_kind="timeout"
    )
    said = problem_check.summary([PASSED, off, blamed], 30.0)
    assert (
        said["problems"],
        said["passed"],
        said["clean"],
        said["one_in_interval"],
        said["timed"],
    ) == (3, 2, 2, 1, 2)
    assert said["off"] == said["one_outside"] == ["L1/2_y 1.100"]
    assert said["blamed"] == ["L2/3_z"]
    assert said["kinds"] == {"timeout: timeout": 1}
    assert said["per_minute"] == 6.0
    assert said["levels"]["1"] == {"problems": 2, "clean": 2, "p50_s": 3.0, "max_s": 4.0}


def test_kernelbenchs_own_package_is_imported_with_stubs_for_what_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from tests.bench import kernelbench_own

    package = tmp_path / "src" / "kernelbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from dotenv import load_dotenv\nload_dotenv()\nfrom litellm import completion\n"
    )
    (package / "eval.py").write_text(
        "from pydantic import BaseModel\nclass Result(BaseModel):\n    correctness: bool = False\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("EVALUATION_DEVICE", "")
    for name in ("dotenv", "litellm", "pydantic"):
        monkeypatch.setitem(sys.modules, name, None)  # not installed, wherever this runs
    own = kernelbench_own.package(tmp_path)
    assert own.Result(correctness=True).correctness
    assert own.Result().metadata == {}


def test_published_sets_are_read_in_their_own_forms(checkout: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.bench import published

    row = {"task_id": "4", "ref_code": "ref", "custom_code": "import triton", "score": "1.5"}
    nested, lines, plain = (
        tmp_path / "nested.json",
        tmp_path / "lines.json",
        tmp_path / "plain.jsonl",
    )
    nested.write_text(json.dumps({"1": [row, {**row, "custom_code": None}], "2": [row]}))
    lines.write_text(
        "".join(
            json.dumps({"level_id": "1", **row, "other": "load_inline"}) + "\n" for _ in range(2)
        )
    )
    plain.write_text(json.dumps({"name": "n", "reference": "ref", "candidate": "c"}))
    read = [
        (kernel.problem.level, kernel.problem.name, kernel.backend)
        for kernel in published.kernels(nested, None, None)
    ]
    assert read == [(1, "4", "triton"), (2, "4", "triton")]
    assert [kernel.claimed for kernel in published.kernels(lines, None, None)] == [1.5, 1.5]
    assert {kernel.backend for kernel in published.kernels(lines, "other", None)} == {"cuda"}
    assert [kernel.candidate for kernel in published.kernels(plain, None, None)] == [b"c"]
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "level_1_problem_10_sample_0_kernel.py").write_text("import torch")
    assert [kernel.problem.name for kernel in published.kernels(runs, None, checkout)] == ["10_b"]
    with pytest.raises(ValueError, match="needs --problems"):
        list(published.kernels(runs, None, None))


def test_a_pipe_gets_a_whole_line_for_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        "48_Mamba2ReturnY",
        "100_ConvTranspose3d_Clamp_Min_Divide_with_a_longer_name_than_usual",
    ]
    rows = [replace(PASSED, name=name) for name in names]
    problems._print(rows, problem_check.summary(rows, 4.0))
    lines = capsys.readouterr().out.splitlines()
    assert [name in line for name, line in zip(names, lines[1:3], strict=True)] == [True, True]
    assert all("1.010 [0.990, 1.030]" in line for line in lines[1:3])
