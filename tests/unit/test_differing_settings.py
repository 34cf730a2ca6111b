"""Settings of compared runs: those that differ, a collection's by its specification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID, uuid4

from app.store.browse.collecting import RunCollection
from app.store.browse.runs import RunRow
from app.web import run_comparison


@dataclass
class Run:
    """The parts of a run that are compared."""

    settings: dict[str, Any]
    model: str = "m"
    step: int | None = None
    run_id: UUID = field(default_factory=uuid4)


def _collection(name: str, strategy: str, **changes: Any) -> RunCollection:
    spec = {"name": name, "strategy": {"name": strategy}, "stops": {}, **changes}
    return RunCollection(collection_id=uuid4(), spec=spec)


def test_runs_of_collections_differ_by_their_specifications() -> None:
    one, other = (Run(settings={"collection": text, "lr": 0.1}) for text in ("aa", "bb"))
    collections = {
        one.run_id: _collection("a", "beam", seed=1),
        other.run_id: _collection("b", "sequential", seed=1),
    }
    chosen = cast("list[RunRow]", [one, other])
    assert run_comparison.differing_settings(chosen, collections) == [
        ("strategy.name", ["beam", "sequential"])
    ]


def test_a_run_of_no_collection_keeps_its_settings() -> None:
    one, other = Run(settings={"lr": 0.1}), Run(settings={"lr": 0.2}, step=3)
    chosen = cast("list[RunRow]", [one, other])
    assert run_comparison.differing_settings(chosen, {}) == [
        ("step", ["–", "3"]),
        ("lr", ["0.1", "0.2"]),
    ]
