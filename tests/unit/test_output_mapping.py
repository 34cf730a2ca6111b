"""How timed blocks deliver, once it is known where outputs come to lie."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from workers.protocol.control_channel import Delivering
from workers.referee.timing import output_mapping


def _sides(*mappable: bool) -> Any:
    """Trials with outputs that lie where they can be mapped, or not."""
    reference, candidate = (
        SimpleNamespace(delivering=Delivering.COPY, mappable=each) for each in mappable
    )
    return SimpleNamespace(
        surveys=True,
        arena=SimpleNamespace(outputs=SimpleNamespace(leaves=[{}])),
        draw=lambda count: None,
        device_lock=SimpleNamespace(shared=nullcontext),
        reference=reference,
        candidate=candidate,
    )


def _look(trials: Any, session: Any, batch: Any, count: int) -> None:
    session.delivering = Delivering.HOLD if session.mappable else Delivering.COPY


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("candidate", [True, False])
def test_where_one_side_has_to_copy_its_outputs_both_do(
    monkeypatch: pytest.MonkeyPatch, *, reference: bool, candidate: bool
) -> None:
    monkeypatch.setattr(output_mapping, "_survey", _look)
    trials = _sides(reference, candidate)
    output_mapping.survey(trials, [(trials.reference, 8), (trials.candidate, 8)])
    found = {trials.reference.delivering, trials.candidate.delivering}
    assert found == {Delivering.HOLD if reference and candidate else Delivering.COPY}


ONE, NUMBER = {"kind": "tensor", "dtype": "float32", "shape": [4]}, {"kind": "float"}


@pytest.mark.parametrize(
    ("addresses", "leaves", "found"),
    [
        ([512, 256], [ONE, ONE], [(256, 272), (512, 528)]),
        ([256, 0, 512, 0], [ONE, NUMBER, ONE, NUMBER], [(256, 272), (512, 528)]),
        ([256, 0], [ONE, ONE], []),  # not in one piece: its process has copied it
        ([256, 256], [ONE, ONE], []),  # the same memory again
        ([256, 264], [ONE, ONE], []),
        ([0], [NUMBER], []),
    ],
)
def test_outputs_stay_where_they_are_if_all_can(
    addresses: list[int], leaves: list[dict[str, Any]], found: list[tuple[int, int]]
) -> None:
    assert output_mapping._spans(addresses, leaves) == found


@pytest.mark.parametrize(
    ("addresses", "compared", "found"),
    [
        ([256, 0, 512, 0], (3,), [(256, 272), (512, 528)]),
        ([256, 0, 0, 0], (3,), []),  # the second call's output is not in one piece
        ([0, 0], (0, 1), []),
        ([256, 512], (), [(256, 272), (512, 528)]),
    ],
)
def test_inputs_that_belong_to_the_answer_do_not_keep_outputs_from_their_places(
    monkeypatch: pytest.MonkeyPatch,
    addresses: list[int],
    compared: tuple[int, ...],
    found: list[tuple[int, int]],
) -> None:
    mapped: list[list[tuple[int, int]]] = []

    def note(runner: Any, session: Any, spans: list[tuple[int, int]]) -> bool:
        mapped.append(spans)
        return True

    monkeypatch.setattr(output_mapping, "_map", note)
    calls = 2 if len(addresses) == 4 else 1
    outputs = SimpleNamespace(leaves=[ONE] * (len(addresses) // calls))
    runner: Any = SimpleNamespace(arena=SimpleNamespace(outputs=outputs, compared_inputs=compared))
    assert output_mapping.map_in_place(runner, None, addresses, calls) == bool(found)
    assert mapped == ([found] if found else [])
