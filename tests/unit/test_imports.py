"""A malformed KernelBench folder: refused before anything is stored, naming the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import imports
from app.imports import BadImportError
from app.store.postgres.database import Database

NOWHERE = Database("postgresql+psycopg://nobody@127.0.0.1:1/none")

GOOD = "class Model: pass\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


def put(root: Path, name: str, text: str | bytes = GOOD) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(root: Path) -> str:
    with pytest.raises(BadImportError) as caught:
        imports.kernelbench(NOWHERE, root)
    return str(caught.value)


def test_a_folder_without_levels(tmp_path: Path) -> None:
    put(tmp_path, "level1/README.md")
    assert (
        refused(tmp_path)
        == f"{tmp_path}: expected KernelBench/level1 … or level1 … with problems <number>_<name>.py"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("level1/ReLU.py", GOOD, "<number>_<name>.py, as everywhere in a folder level1"),
        ("level1/1_A.py", "class Model: pass\n", "expected a problem that defines get_inputs"),
        ("level1/1_A.py", "class Model(:\n", "expected Python source: invalid syntax"),
        (
            "level1/1_A.py",
            b"x = '\0'\n",
            "expected Python source: source code string cannot contain null bytes",
        ),
        ("level1/1_A.py", b"x = '\xff'\n", "expected Python source"),
        ("level1/1_A.py", "(" * 5000, "expected Python source"),
    ],
)
def test_a_bad_problem_is_named(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    path = put(tmp_path, name, text)
    said = refused(tmp_path)
    assert said.startswith(f"{path}: ")
    assert message in said


def test_two_problems_of_one_number(tmp_path: Path) -> None:
    put(tmp_path, "level1/1_A.py")
    second = put(tmp_path, "level1/01_B.py").with_name("1_A.py")
    assert refused(tmp_path) == f"{second}: problem 1 of level 1 is already in 01_B.py"


def test_a_kernel_of_another_name(tmp_path: Path) -> None:
    put(tmp_path, "level1/1_A.py")
    path = put(tmp_path, "runs/r/1_kernel.py")
    assert refused(tmp_path) == f"{path}: expected level_<L>_problem_<P>_sample_<S>_kernel.py"


def test_unknown_backends_and_device_classes_are_refused_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown backend 'cute'"):
        imports.kernelbench(NOWHERE, tmp_path, backend="cute")
    with pytest.raises(ValueError, match="unknown GPU class 'h2000'"):
        imports.kernelbench(NOWHERE, tmp_path, device_class="h2000")
