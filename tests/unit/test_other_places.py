"""Calls on inputs with limits of their own: further ones of a fast candidate, on inputs that are
changed in a few places; and those of all kinds that few problems have.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from workers.protocol.control_channel import Delivering
from workers.protocol.input_variants import CHECKED, CLOSER, REACHED, Variant
from workers.referee.comparison.correctness import Rule
from workers.referee.processes.process_session import Session
from workers.referee.session import variant_calls


@pytest.mark.parametrize(
    ("streams", "in_block", "rounds"), [(False, 8, [3]), (False, 2, [2, 1]), (True, 1, [1])]
)
def test_each_kind_is_drawn_again_and_delivery_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch, streams: bool, in_block: int, rounds: list[int]
) -> None:
    handle: Any = SimpleNamespace(process=None)
    candidate = Session(handle)
    candidate.delivering = Delivering.HOLD
    runner: Any = SimpleNamespace(
        candidate=candidate,
        streams=streams,
        are_costly=False,
        in_block=in_block,
        device_lock=SimpleNamespace(shared=nullcontext),
    )
    seen: list[tuple[Variant, int, Delivering]] = []

    def tried(runner: Any, kinds: tuple[Variant, ...], _: Any, sets: int) -> None:
        seen.extend((kind, sets, runner.candidate.delivering) for kind in kinds)

    monkeypatch.setattr(variant_calls, "_try_some", tried)
    variant_calls.try_other_places(runner, [])
    assert seen == [
        (kind, sets, Delivering.COPY)
        for kind in (Variant.LOCAL, Variant.PARTLY, Variant.TELLING, Variant.SHRUNK)
        for sets in rounds
    ]
    assert sum(rounds) == (1 if streams else variant_calls.PLACES)
    assert runner.candidate.delivering == Delivering.HOLD


class Drawn(SimpleNamespace):
    """Inputs of some kinds."""

    def only(self, slots: list[int]) -> Drawn:
        variants = tuple(self.variants[slot] for slot in slots)
        return Drawn(variants=variants, slots=len(variants))


@pytest.mark.parametrize("in_block", [1, 4, 64])
def test_few_requests_draw_what_is_tried_kind_by_kind(
    monkeypatch: pytest.MonkeyPatch, in_block: int
) -> None:
    """A request for each kind, of which a problem has one or two, took a wait for the lock and for
    the reference's process each.
    """
    there = {Variant.LOCAL, Variant.SIGNED, Variant.PARTLY}
    asked: list[tuple[Variant, ...]] = []
    tried: list[tuple[Variant, ...]] = []

    def draw_unusual(kinds: list[Variant], sets: int = 1) -> Drawn | None:
        assert sets == 1
        asked.append(tuple(kinds))
        variants = tuple(kind for kind in sorted(kinds) if kind in there)
        return Drawn(variants=variants, slots=len(variants)) if variants else None

    runner: Any = SimpleNamespace(
        streams=False,
        are_costly=False,
        in_block=in_block,
        kinds_at_once=in_block,
        draw_unusual=draw_unusual,
        device_lock=SimpleNamespace(shared=nullcontext),
        arena=SimpleNamespace(outputs=SimpleNamespace(leaves=())),
        record=SimpleNamespace(rule=Rule()),
    )
    monkeypatch.setattr(
        variant_calls, "_try_drawn", lambda _, batch, __: tried.append(batch.variants)
    )
    variant_calls.try_variants(runner, [])
    assert {kind for kinds in asked for kind in kinds} == {*CHECKED, *REACHED}
    usual = len({*CHECKED} - {*CLOSER, *variant_calls.SMALL})
    apart = len(CHECKED) + len(REACHED) - usual
    assert len(asked) == -(-usual // in_block) + -(-apart // in_block)
    assert sorted(tried) == [(kind,) for kind in sorted(there)]
