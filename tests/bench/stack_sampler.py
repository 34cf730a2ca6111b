"""Runs another bench and samples the stacks of its pool's threads, to see where evaluations wait.

    python -m tests.bench.stack_sampler stacks.txt tests.bench.sweep KERNELBENCH
    --device h200 --slots 8

Writes collapsed stacks, a line each, `outermost;…;innermost count`, the most frequent first:
flame graph tools and speedscope read them.  Only frames of this project count, and the
innermost frame whatever it is.
"""

from __future__ import annotations

import functools
import runpy
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Self

EVERY_S = 0.01
ROOT = str(Path(__file__).resolve().parents[2])


class StackSampler:
    """Samples while it is entered."""

    def __init__(self, path: Path, named: str) -> None:
        """`path`: file that is written at the end, and every 30 s.  `named`: start of the names of
        the threads that are looked at.
        """
        self._path, self._named = path, named
        self._stacks: Counter[str] = Counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._store()

    def _sample(self) -> None:
        samples = 0
        while not self._ended.wait(EVERY_S):
            watched = {
                each.ident for each in threading.enumerate() if each.name.startswith(self._named)
            }
            for thread, frame in sys._current_frames().items():
                if thread in watched:
                    self._stacks[collapsed(frame)] += 1
            samples += 1
            if samples % int(30 / EVERY_S) == 0:
                self._store()

    def _store(self) -> None:
        self._path.write_text(
            "".join(f"{stack} {count}\n" for stack, count in self._stacks.most_common())
        )


def collapsed(frame: FrameType | None) -> str:
    """Functions of this project on a stack, and its innermost one, from the
    outermost to the innermost.
    """
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        if not found or code.co_filename.startswith(ROOT):
            found.append(f"{_stem(code.co_filename)}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return ";".join(reversed(found))


@functools.cache
def _stem(path: str) -> str:
    """Name of a source file without its ending.  Remembered: otherwise the sampler held Python's
    lock for a fifth of the time, as long as all evaluations together.
    """
    return Path(path).stem


def main() -> None:
    """See above."""
    if len(sys.argv) < 3:
        sys.exit(f"usage: python -m tests.bench.stack_sampler FILE MODULE [ARGUMENT…]\n\n{__doc__}")
    path, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    with StackSampler(path, named="ThreadPoolExecutor"):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
