"""Further calls of a fast candidate on inputs that are changed in a few places."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from workers.protocol.control_channel import Delivering
from workers.protocol.input_variants import Variant
from workers.referee.session import variant_calls


@pytest.mark.parametrize(("streams", "rounds"), [(False, variant_calls.PLACES), (True, 1)])
def test_each_kind_is_drawn_again_and_delivery_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch, streams: bool, rounds: int
) -> None:
    runner: Any = SimpleNamespace(
        candidate=SimpleNamespace(delivering=Delivering.HOLD),
        streams=streams,
        are_costly=False,
        device_lock=SimpleNamespace(shared=nullcontext),
    )
    seen: list[tuple[Variant, Delivering]] = []

    def tried(runner: Any, kinds: tuple[Variant, ...], _: Any, *, ceiling: bool) -> None:
        seen.extend((kind, runner.candidate.delivering) for kind in kinds)
        assert ceiling == (Variant.PARTLY not in kinds)

    monkeypatch.setattr(variant_calls, "_try_some", tried)
    variant_calls.try_other_places(runner, [])
    one_round = [(Variant.LOCAL, Delivering.COPY), (Variant.PARTLY, Delivering.COPY)]
    assert seen == one_round * rounds
    assert runner.candidate.delivering == Delivering.HOLD
