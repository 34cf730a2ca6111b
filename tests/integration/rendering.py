"""Parts of an export rendered in the test's own process, so that a test can break them off."""

from __future__ import annotations

from app.export import render, render_pool


def render_here(self: render_pool.Pool, number: int, plan_sha256: str) -> None:
    """In place of `Pool._submit`."""
    with render.Renderer(self._job) as renderer:
        self._done[number] = renderer.part(number, plan_sha256)
