"""EXPORT: the pool of processes that render the parts of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa

from app.export.render import Job, Part, Renderer, part_path
from app.export.render_worker import RenderWorker
from app.export.text_facts import Progress

RENDERERS = 4
"""Most render processes beside the selecting one: PostgreSQL needs cores as well."""


class Pool:
    """Render processes that work while the selection continues; afterwards this process renders
    its share of the remaining parts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._threads: ThreadPoolExecutor | None = None
        self._workers: list[RenderWorker] = []
        self._idle: SimpleQueue[RenderWorker] = SimpleQueue()
        self._running: dict[int, tuple[Future[Part], str]] = {}
        self._done: dict[int, Part] = {}
        self._last: tuple[int, str] | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for worker in self._workers:
            worker.end(at_once=kind is not None)
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def start(self) -> None:
        """Start the processes: there will be more than one part."""
        if self._threads is not None:
            return
        count = min(RENDERERS, max(1, (os.cpu_count() or 1) // 2))
        self._threads = ThreadPoolExecutor(count)
        for _ in range(count):
            self._workers.append(RenderWorker(self._job))
            self._idle.put(self._workers[-1])

    def add(self, number: int, plan_sha256: str) -> None:
        """Render this part, unless it is done already."""
        part = Part.load(part_path(self._job.root, number))
        if part is not None and part.plan_sha256 == plan_sha256 and _is_there(self._job.root, part):
            self._done[number] = part
            return
        if self._last is not None:
            self._submit(*self._last)
        self._last = (number, plan_sha256)

    def finish(self, progress: Progress) -> list[Part]:
        """Every part, in order."""
        pa.default_memory_pool().release_unused()  # rows of the selection
        total = len(self._done) + len(self._running) + (self._last is not None)
        with Renderer(self._job) as renderer:
            for number, plan_sha256 in self._not_begun():
                self._done[number] = renderer.part(number, plan_sha256)
                progress("rendering", len(self._done), total)
        for number, (running, _) in sorted(self._running.items()):
            self._done[number] = running.result()
            progress("rendering", len(self._done), total)
        return [part for _, part in sorted(self._done.items())]

    def _not_begun(self) -> Iterator[tuple[int, str]]:
        """Parts that no other process renders, the last first, because the others
        proceed from the front.
        """
        if self._last is not None:
            yield self._last
        for number, (running, plan_sha256) in sorted(self._running.items(), reverse=True):
            if running.cancel():
                del self._running[number]
                yield number, plan_sha256

    def _submit(self, number: int, plan_sha256: str) -> None:
        self.start()
        assert self._threads is not None
        self._running[number] = self._threads.submit(self._render, number, plan_sha256), plan_sha256

    def _render(self, number: int, plan_sha256: str) -> Part:
        worker = self._idle.get()
        try:
            return worker.part(number, plan_sha256)
        finally:
            self._idle.put(worker)


def _is_there(root: Path, part: Part) -> bool:
    return all(
        (root / file.path).is_file() and (root / file.path).stat().st_size == file.bytes
        for file in part.files
    )
