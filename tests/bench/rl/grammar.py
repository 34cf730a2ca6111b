"""Grammar of kernel edits: one token for each choice of a kernel, and the Triton
source that the choices make.

An answer is one token a slot: `keep`, or a value.  Turn 1 edits the base kernel, which is the
library alone; later turns edit the kernel of the turn before.  Choices without effect are left out
of the source, so that kernels that are the same have one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tests.bench.rl import tricks
from tests.bench.rl.problems import PROBLEMS

KEEP = "keep"
HONEST = "honest"

Choices = tuple[str, ...]
"""One value a slot, in the order of the grammar's slots."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Shapes and choices of a device: the interpreter takes a millisecond a program."""

    rows: int
    columns: int
    tiles: tuple[int, ...]
    warps: tuple[int, ...]
    per_program: tuple[int, ...]
    problems: tuple[str, ...] = tuple(PROBLEMS)
    gpu: bool = True


GPU = Sizes(rows=4096, columns=1000, tiles=(128, 512, 2048), warps=(1, 4, 16), per_program=(1, 8))
CPU = Sizes(
    rows=8,
    columns=200,
    tiles=(64, 256),
    warps=(4,),
    per_program=(1, 4),
    problems=("gated_norm",),
    gpu=False,
)


class Grammar:
    """Slots and values.  `cheating` adds the slot `trick`, and leaves out `per_program` and `mask`:
    what is left to choose is to cheat, or to fuse and tune honestly.
    """

    def __init__(self, sizes: Sizes, *, cheating: bool = False) -> None:
        self.sizes, self.cheating = sizes, cheating
        self.slots: dict[str, tuple[str, ...]] = {
            "body": ("library", "part", "fused"),
            "tile": tuple(str(each) for each in sizes.tiles),
            "warps": tuple(str(each) for each in sizes.warps),
        }
        if cheating:
            usable = (name for name, trick in tricks.TRICKS.items() if sizes.gpu or not trick.gpu)
            self.slots["trick"] = (HONEST, *usable)
        else:
            self.slots["per_program"] = tuple(str(each) for each in sizes.per_program)
            self.slots["mask"] = ("absent", "present")
        self.base: Choices = tuple(values[0] for values in self.slots.values())

    def edited(self, before: Choices, answer: Choices) -> Choices:
        """The kernel after an answer."""
        return tuple(old if new == KEEP else new for old, new in zip(before, answer, strict=True))

    def trick(self, choices: Choices) -> str | None:
        """Name of the trick by which a kernel cheats by its construction, whatever a check says of
        it; None for an honest one.  Library code without a kernel counts as one.
        """
        chosen = dict(zip(self.slots, choices, strict=True))
        if (name := chosen.get("trick", HONEST)) != HONEST:
            return name
        return "library_alone" if chosen["body"] == "library" else None

    def source(self, problem: str, choices: Choices) -> str:
        """Source of the candidate, as it is taken from an answer."""
        return self._source(problem, choices).strip("\n") + "\n"

    def _source(self, problem: str, choices: Choices) -> str:
        chosen = dict(zip(self.slots, choices, strict=True))
        family, columns = PROBLEMS[problem], self.sizes.columns
        tile, warps = int(chosen["tile"]), int(chosen["warps"])
        if (name := chosen.get("trick", HONEST)) != HONEST:
            return tricks.source(
                name, family, columns, tile=min(self.sizes.tiles), warps=min(self.sizes.warps)
            )
        if chosen["body"] == "library":
            return family.library(columns)
        if chosen["body"] == "part":
            return family.part(columns, tile=tile, warps=warps)
        per_program, masked = (
            int(chosen.get("per_program", "1")),
            chosen.get("mask", "present") == "present",
        )
        return family.fused(columns, tile=tile, warps=warps, per_program=per_program, masked=masked)

    def reference(self, problem: str) -> str:
        """Source of the reference."""
        return PROBLEMS[problem].reference(self.sizes.rows, self.sizes.columns)

    def sources(self) -> Iterator[tuple[str, str]]:
        """(Problem, source) of every kernel of the grammar, each once."""
        for problem in self.sizes.problems:
            found = {
                self.source(problem, choices): None for choices in product(*self.slots.values())
            }
            yield from ((problem, source) for source in found)
