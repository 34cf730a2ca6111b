"""Exports of generated evaluations: rows a second, peak memory, and how both grow.

    python -m tests.bench.export [--scale 500000 1000000] [--state DIR]

For each scale, fills a database of its own with that many evaluations (a tenth as many
trajectories) whose sources all differ, then exports with every stage on: once cold (facts about
texts are computed), twice warm.  A row a second is an *evaluation* that the pipeline took in.
Memory is the sum of this process and those that render, at its peak; PostgreSQL's is not counted;
its processor time is.  With --state the databases are kept, and used again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import app.cli  # noqa: F401 (Arrow then has the memory pool that it has in `assay export`)
from app import embedded, export
from app.domain.dataset.profiling_rejection import Ramp
from app.domain.dataset.selection import BestOf, Context
from app.export import Spec
from app.settings import Settings
from app.store.postgres.database import Database
from tests import generate
from tests.bench.state_folders import state_folder
from tests.generate import texts
from tests.processes import children, command_line, processor_s

FULL = Spec(
    min_speedup=0.5,
    max_speedup=100,
    min_coverage=0.2,
    max_tokens=32_000,
    prs=Ramp.SOFT,
    max_per_problem=100_000,
    val_fraction=0.05,
    context=Context.ANY,
)
"""Every stage that needs no list of held-out problems, with near-duplicates by
MinHash; most that is right leaves.
"""

OPERATIONS = ("relu", "exp", "tanh", "sigmoid", "abs", "sqrt", "log1p", "square", "neg", "sin")


def main() -> None:
    """Fill, export, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, nargs="+", default=[1_000_000], metavar="EVALUATIONS")
    parser.add_argument("--state", type=Path)
    arguments = parser.parse_args()
    with state_folder(arguments.state) as folder:
        found = [of_scale(scale, folder / str(scale)) for scale in arguments.scale]
    print(json.dumps(found, indent=2))


def of_scale(scale: int, folder: Path) -> dict[str, Any]:
    """All figures of exports of that many evaluations, from servers of their own."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)
    with embedded.Services(replace(Settings.from_env(), state_dir=folder / "state")) as services:
        database = Database(str(services.settings.database_url))
        try:
            return exports(database, scale, folder / "out", _postmaster(folder))
        finally:
            database.dispose()


def exports(database: Database, evaluations: int, out: Path, postmaster: int) -> dict[str, Any]:
    """Figures of each export, one after the other, from a database that is filled before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        took_s = apart.submit(
            fill, database.url.render_as_string(hide_password=False), evaluations
        ).result()
    found: dict[str, Any] = {"evaluations": evaluations, "generated_s": took_s}
    shutil.rmtree(out, ignore_errors=True)
    runs = {
        "cold": FULL,
        "warm": FULL,
        "warm_again": FULL,
        "best_of_16": replace(FULL, best_of=BestOf.TOP_K, k=16),
    }
    for name, spec in runs.items():
        found[name] = {"load": os.getloadavg()[0]} | exported(
            database, spec, out / name, postmaster
        )
    found["same_content"] = found["warm"].pop("content") == found["warm_again"].pop("content")
    shutil.rmtree(out)
    return found


def fill(url: str, evaluations: int) -> float | None:
    """Fill a database; returns the seconds that it took, None where it was filled before.  Runs in
    a process of its own, whose memory is not the export's.
    """
    database = Database(url)
    draw = random.Random(7)
    problem = mock.patch.object(
        texts, "problem", lambda _, level, number: reference(draw, level, number)
    )
    candidate = mock.patch.object(
        texts, "source", lambda _, name, serial, label: source(draw, serial)
    )
    began = time.perf_counter()
    try:
        with problem, candidate:
            generate.fill(database, evaluations)
    except ValueError:  # there is generated data
        return None
    finally:
        database.dispose()
    return time.perf_counter() - began


def exported(database: Database, spec: Spec, out: Path, postmaster: int) -> dict[str, Any]:
    """Figures of one export."""
    with peak_memory() as memory:
        began, cpu, served = time.perf_counter(), _cpu_s(), _postgres_cpu_s(postmaster)
        manifest = export.export(database, spec, out)
        took = time.perf_counter() - began
    stages = {stage.stage: stage.rows for stage in manifest.funnel}
    return {
        "seconds": took,
        "evaluations_per_s": stages["snapshot"] / took,
        "rows_written": manifest.rows,
        "rows_written_per_s": manifest.rows / took,
        "own_cpu_s": _cpu_s() - cpu,
        "postgres_cpu_s": _postgres_cpu_s(postmaster) - served,
        "peak_memory_mb": memory["peak"] / 1e6,
        "bytes": sum(file.bytes for file in manifest.files),
        "funnel": stages,
        "content": manifest.content_sha256,
    }


def reference(draw: random.Random, level: int, number: int) -> tuple[str, bytes]:
    """A problem of a family of its own."""
    chain = draw.choices(OPERATIONS, k=4 + 2 * level)
    body = "x"
    for operation in chain:
        body = f"torch.{operation}({body})"
    name = f"{level}_{number:03}_{chain[0]}_{chain[1]}"
    text = (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self,"
        f" x):\n        return {body}\n\n\ndef get_inputs():\n    return [torch.randn(64,"
        f" {number + 1})]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return name, text.encode()


_BODY = (
    "    a{0} = tl.load(x_ptr + row * n_columns + offsets + {1}, mask=mask, other={2}.0)",
    "    a{0} = tl.exp(a{3} * {1}.{2}) + tl.maximum(a{3}, {2})",
    "    a{0} = tl.where(a{3} > {1}, a{3} - {2}, tl.sigmoid(a{3}))",
    "    a{0} = tl.sum(a{3} * {1}, axis=0) / ({2} + n_columns)",
    "    a{0} = tl.sqrt(tl.abs(a{3})) * {1}.{2}",
)


def source(draw: random.Random, serial: str) -> bytes:
    """A candidate of about two kilobytes, like no other."""
    lines = ["    a0 = tl.load(x_ptr + row * n_columns + offsets, mask=mask)"]
    for number in range(1, draw.randint(12, 24)):
        lines.append(
            draw.choice(_BODY).format(number, draw.randint(1, 99), draw.randint(1, 99), number - 1)
        )
    body = "\n".join(lines)
    return (
        f"# {serial}\nimport torch\nimport torch.nn as nn\nimport triton\nimport triton.language as"
        " tl\n\n\n@triton.jit\ndef fused_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):\n"
        "    row = tl.program_id(0)\n    offsets = tl.arange(0, BLOCK)\n    mask = offsets <"
        f" n_columns\n{body}\n    tl.store(out_ptr + row * n_columns + offsets, a{len(lines) - 1},"
        " mask=mask)\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        out ="
        " torch.empty_like(x)\n        fused_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024,"
        f" num_warps={draw.choice((2, 4, 8))})\n        return out\n"
    ).encode()


@contextmanager
def peak_memory() -> Iterator[dict[str, int]]:
    """Peak of the proportional set size of this process and of those that render, in bytes, read
    twice a second: a process takes 10 ms.
    """
    found = {"peak": 0}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            found["peak"] = max(
                found["peak"], sum(map(_pss, [os.getpid(), *_renderers(os.getpid())]))
            )

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def _renderers(pid: int) -> list[int]:
    """Processes that render; PostgreSQL is a child of this process, too, and is not counted."""
    return [each for each in children(pid) if "app.export.render_worker" in command_line(each)]


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(
        int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")
    )


def _postmaster(folder: Path) -> int:
    [path] = (folder / "state").rglob("postmaster.pid")
    return int(path.read_text().split()[0])


def _postgres_cpu_s(postmaster: int) -> float:
    """Processor seconds of all processes that the server has or had."""
    return sum(
        processor_s(pid, with_ended_children=True) for pid in (postmaster, *children(postmaster))
    )


def _cpu_s() -> float:
    own, below = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


if __name__ == "__main__":
    main()
