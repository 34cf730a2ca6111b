"""Folders of problems: KernelBench's levels, and sets of other people."""

from pathlib import Path

import pytest

from app.domain import kernelbench, problem_folder

GOOD = "class Model: ...\ndef get_inputs(): ...\n"


def put(root: Path, **texts: str) -> Path:
    """A folder with these files; `__` in a name is a folder's end."""
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_folder_without_levels_is_a_set_of_its_own(tmp_path: Path) -> None:
    root = put(
        tmp_path / "mine",
        relu=GOOD,
        attention__causal=GOOD,
        utils="def helper(): ...\n",
        half="class Model: ...",
    )
    found = problem_folder.read(root)
    assert [(each.name, each.source_set, each.level) for each in found.problems] == [
        ("attention/causal", "mine", None),
        ("relu", "mine", None),
    ]
    assert found.bad == (f"{root}/half.py: expected a problem that defines get_inputs",)
    assert found.others == (root / "utils.py",)
    assert {each.source_set for each in problem_folder.read(root, "ours").problems} == {"ours"}


def test_a_bad_file_of_a_level_does_not_end_the_others(tmp_path: Path) -> None:
    root = put(tmp_path, level1__1_a=GOOD, level1__2_b="class Model(:", level2__1_c=GOOD)
    found = problem_folder.read(root)
    assert [(each.name, each.source_set, each.level) for each in found.problems] == [
        ("1_a", "kernelbench", 1),
        ("1_c", "kernelbench", 2),
    ]
    assert [message.partition(": ")[0] for message in found.bad] == [f"{root}/level1/2_b.py"]
    assert not found.outside
    assert {each.source_set for each in problem_folder.read(root, "own").problems} == {"own"}


def test_files_beside_levels_are_named(tmp_path: Path) -> None:
    root = put(tmp_path, level1__1_a=GOOD, hard__relu=GOOD, level1__more__2_b=GOOD, top=GOOD)
    found = problem_folder.read(root)
    assert [each.name for each in found.problems] == ["1_a"]
    assert [path.as_posix() for path in found.outside] == [
        "hard/relu.py",
        "level1/more/2_b.py",
        "top.py",
    ]


def test_folders_without_problems_are_refused(tmp_path: Path) -> None:
    root = put(tmp_path, level1__1_a=GOOD, empty__utils="x = 1\n")
    with pytest.raises(
        kernelbench.CheckoutError, match="got a level: give the folder that holds it"
    ):
        problem_folder.read(root / "level1")
    with pytest.raises(
        kernelbench.CheckoutError, match="or files that define Model and get_inputs, found none"
    ):
        problem_folder.read(root / "empty")
    put(root, level1__b=GOOD)
    with pytest.raises(
        kernelbench.CheckoutError, match=r"expected a problem named <number>_<name>\.py"
    ):
        problem_folder.read(root)
