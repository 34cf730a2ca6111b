"""A folder of problems: a KernelBench checkout, or any folder with files that define
`Model` and `get_inputs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from app.domain import kernelbench
from app.domain.problem import Problem
from app.domain.source import source_text


@dataclass(frozen=True, kw_only=True)
class ProblemFolder:
    """The problems of a folder, and the files that are none."""

    problems: tuple[Problem, ...]
    bad: tuple[str, ...] = ()
    """A message for each file that ought to be a problem and cannot be read as one."""
    others: tuple[Path, ...] = ()
    """Python files that define none of a problem's names."""
    outside: tuple[Path, ...] = ()
    """Python files that lie in no level, relative to the folder of the levels."""


def read(directory: Path, source_set: str | None = None) -> ProblemFolder:
    """Read the problems of a folder.  `source_set`: their source set; by default `kernelbench` for
    a folder with levels, else the folder's name.

    Raises CheckoutError if a level's files are not named as KernelBench names them, the folder is
    itself a level, or there is no problem.
    """
    if kernelbench.is_level(directory):
        raise kernelbench.CheckoutError(
            f"{directory}: expected KernelBench/level1 … or level1 …, got a level: give the folder"
            " that holds it"
        )
    levels = kernelbench.has_levels(directory)
    found = _of_levels(directory) if levels else _of_plain(directory)
    name = source_set or (
        kernelbench.SOURCE_SET if levels else source_text.printable(directory.resolve().name)
    )
    return replace(found, problems=tuple(replace(each, source_set=name) for each in found.problems))


def _of_levels(directory: Path) -> ProblemFolder:
    problems: list[Problem] = []
    bad: list[str] = []
    for (level, _), path in kernelbench.problem_files(directory).items():
        try:
            problems.append(kernelbench.problem(path, level))
        except kernelbench.CheckoutError as error:
            bad.append(str(error))
    return ProblemFolder(
        problems=tuple(problems), bad=tuple(bad), outside=tuple(kernelbench.outside(directory))
    )


def _of_plain(directory: Path) -> ProblemFolder:
    """Every Python file below the folder, named by its path.  A file that has none of
    a problem's names is a helper.
    """
    problems: list[Problem] = []
    bad: list[str] = []
    others: list[Path] = []
    for path in sorted(directory.rglob("*.py")):
        name = source_text.printable(path.relative_to(directory).with_suffix("").as_posix())
        try:
            problems.append(replace(kernelbench.problem(path, None), name=name))
        except kernelbench.LacksNamesError as error:
            if error.lacks_all:
                others.append(path)
            else:
                bad.append(str(error))
        except kernelbench.CheckoutError as error:
            bad.append(str(error))
    if not problems and not bad:
        raise kernelbench.CheckoutError(
            f"{directory}: expected KernelBench/level1 …, level1 … or files that define"
            f" {kernelbench.NAMES}, found none"
        )
    return ProblemFolder(problems=tuple(problems), bad=tuple(bad), others=tuple(others))
