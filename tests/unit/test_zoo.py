"""The zoo itself: first lines parse, problems are used, cheats explain themselves,
nothing dangerous is unguarded.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.detectors import DETECTORS
from app.domain.evaluation import Status
from app.domain.verdict import Label
from tests import zoo

CASES = zoo.cases()
UNPARSABLE = {"broken/syntax_error", "broken/nul_byte", "broken/lone_surrogate"}
OUT_OF_REACH = {"speed_of_light", "slow_reference", "begun_early"}
"""On the CPU device the floor is so low (twice the first-level cache) that waking a process takes
longer; a reference's usual time is known after some benchmarks
on a GPU; and a candidate that leaves work on the device is stopped there before it can be named.
"""

INFORMATION = {
    "bimodal_times",
    "call_dependence",
    "event_timing",
    "library_work",
    "machine_state",
    "nondeterminism",
    "not_triton",
    "static_hints",
}
"""Detectors that accuse no candidate under the default policy; first lines name those that do."""

DANGEROUS = (b"os.kill(", b"os.ftruncate(")

GOOD = "# zoo: problem=row_softmax backend=torch status=passed verdict=clean findings=-"


def docstring(case: zoo.Case) -> str:
    return ast.get_docstring(ast.parse(case.candidate)) or ""


def write(folder: Path, first_line: str) -> Path:
    (folder / "honest").mkdir()
    (folder / "problems").symlink_to(zoo.ROOT / "problems")
    path = folder / "honest" / "candidate.py"
    path.write_text(first_line + "\n\nx = 1\n")
    return path


def test_there_is_a_zoo() -> None:
    sizes = {group: sum(case.group == group for case in CASES) for group in zoo.GROUPS}
    assert sizes["honest"] >= 70
    assert sizes["hacks"] >= 70
    assert min(sizes.values()) >= 8
    assert len(zoo.problems()) >= 12
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_way_of_cheating_has_a_file() -> None:
    cells = re.findall(
        r"(?<=\|) (\d[a-z](?:, \d[a-z])*) (?=\|)", (zoo.ROOT / "README.md").read_text()
    )
    ways = {code for cell in cells for code in cell.split(", ")} | {"7", "8"}
    assert len(ways) > 50
    assert {code for case in CASES for code in case.codes} == ways


def test_every_file_of_a_group_is_a_case() -> None:
    files = {
        path
        for group in zoo.GROUPS
        for path in (zoo.ROOT / group).iterdir()
        if path.suffix != ".pyc"
    }
    assert {case.path for case in CASES} == {path for path in files if path.is_file()}


def test_its_words_are_the_system_s() -> None:
    assert set(zoo.STATUSES) == {str(status) for status in Status}
    assert set(zoo.LABELS) == {str(label) for label in Label}
    assert {name for case in CASES for name in case.findings} <= set(DETECTORS)


def test_every_detector_and_status_has_a_case() -> None:
    assert {name for case in CASES for name in case.findings} == set(
        DETECTORS
    ) - OUT_OF_REACH - INFORMATION
    assert {case.status for case in CASES} == set(zoo.STATUSES)


def test_no_candidate_holds_its_expected_result() -> None:
    """It would stand in every data set of the samples, and in the prompts of collections."""
    for case in CASES:
        on_disk, sent = case.path.read_bytes().split(b"\n"), case.candidate.split(b"\n")
        assert not {line for line in sent if line.startswith((b"# zoo:", b"# on a gpu:"))}, (
            case.name
        )
        changed = [
            number
            for number, lines in enumerate(zip(on_disk, sent, strict=True))
            if lines[0] != lines[1]
        ]
        assert changed in ([0], [0, 1]), "the lines of errors stay the file's"


def test_every_problem_is_used() -> None:
    assert {case.problem_path for case in CASES} == set(zoo.problems())


@pytest.mark.parametrize("path", zoo.problems(), ids=lambda path: path.stem)
def test_problem_has_the_form(path: Path) -> None:
    tree = ast.parse(path.read_bytes())
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert "get_cases" in defined or {"Model", "get_inputs", "get_init_inputs"} <= defined
    assert ast.get_docstring(tree)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.group == "honest"], ids=lambda case: case.name
)
def test_honest_candidates_are_called_clean(case: zoo.Case) -> None:
    assert (case.status, case.verdict) in {("passed", "clean"), ("invalid", "clean")}
    assert docstring(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.group == "wrong"], ids=lambda case: case.name
)
def test_wrong_candidates_are_incorrect_and_not_accused(case: zoo.Case) -> None:
    assert (case.status, case.verdict) == ("incorrect", "clean")
    assert docstring(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.group == "hacks"], ids=lambda case: case.name
)
def test_every_hack_explains_itself(case: zoo.Case) -> None:
    text = docstring(case)
    assert len(text.split("\n\n")) >= 2 or "Detected" in text
    if case.verdict != "clean":
        assert "Detected" in text
    elif not case.not_yet_caught:
        assert "Stopped by structure" in text
    else:
        assert case.status == "passed"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_three_files_are_no_python(case: zoo.Case) -> None:
    try:
        ast.parse(case.candidate)
    except (SyntaxError, ValueError):
        assert case.name in UNPARSABLE
    else:
        assert case.name not in UNPARSABLE


def test_what_would_do_harm_refuses_outside_a_sandbox() -> None:
    dangerous = [case for case in CASES if any(call in case.candidate for call in DANGEROUS)]
    assert {case.path.stem for case in dangerous} == {"kills_its_parent", "truncates_shared_memory"}
    for case in [*dangerous, zoo.case(zoo.ROOT / "broken" / "fork_bomb.py")]:
        assert b"not in a sandbox: refusing" in case.candidate


def test_forks_end_by_themselves() -> None:
    for case in CASES:
        if b"os.fork()" in case.candidate:
            assert b"signal.alarm(60)" in case.candidate


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# zoo:",
        GOOD.replace("# zoo", "#zoo"),
        GOOD.replace(" findings=-", ""),
        GOOD.replace("row_softmax", "no_such_problem"),
        GOOD.replace("backend=torch", "backend=cobol"),
        GOOD.replace("status=passed", "status=fine"),
        GOOD.replace("verdict=clean", "verdict=guilty"),
        GOOD.replace("verdict=clean", "verdict=hack"),
        GOOD.replace("findings=-", "findings=late_write"),
        GOOD.replace("verdict=clean findings=-", "verdict=hack findings=stale_output,late_write"),
        GOOD.replace("verdict=clean findings=-", "verdict=hack findings=late_write,late_write"),
        GOOD.replace("verdict=clean findings=-", "verdict=hack findings=late_write speedup=>1"),
        GOOD.replace("status=passed", "status=incorrect") + " speedup=>1",
        GOOD + " speedup=2",
        GOOD + " ",
        GOOD + " seen=yes",
        GOOD + " needs=tpu",
        GOOD + " needs=gpu speedup=>1",
        GOOD + "\n# on a gpu: status=passed verdict=clean",
        GOOD + "\n# on a gpu: status=passed verdict=guilty findings=-",
        GOOD.replace(" backend", "  backend"),
        GOOD + "\u00a0",
    ],
)
def test_malformed_first_lines_are_errors(tmp_path: Path, line: str) -> None:
    with pytest.raises(zoo.ZooError, match=r"candidate\.py"):
        zoo.case(write(tmp_path, line))


def test_a_first_line_says_everything(tmp_path: Path) -> None:
    line = (
        GOOD.replace("verdict=clean findings=-", "verdict=suspect findings=late_write,stale_output")
        + " speedup=<1"
    )
    case = zoo.case(write(tmp_path, line))
    assert (case.problem, case.backend, case.status, case.verdict) == (
        "row_softmax",
        "torch",
        "passed",
        "suspect",
    )
    assert (case.findings, case.speedup) == (("late_write", "stale_output"), "<1")
    assert case.candidate == b"\n\nx = 1\n"
    assert b"torch.softmax" in case.reference
    assert not case.not_yet_caught
    assert case.runs_on("cpu")
    assert case.runs_on("h200")
    assert case.expected("h200") == replace(case.expected("cpu"), speedup=None)


def test_a_second_line_says_what_a_gpu_says(tmp_path: Path) -> None:
    case = zoo.case(
        write(tmp_path, GOOD + "\n# on a gpu: status=passed verdict=hack findings=late_write")
    )
    assert (case.expected("cpu").verdict, case.expected("h200").verdict) == ("clean", "hack")


def test_what_needs_a_gpu_runs_on_no_other(tmp_path: Path) -> None:
    case = zoo.case(write(tmp_path, GOOD + " speedup=>1 needs=gpu"))
    assert not case.runs_on("cpu")
    assert case.expected("h100").speedup == ">1"
