"""Inputs that reach the cases which a reference's code distinguishes, where its own are large."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.protocol.reference_work import ReferenceWork
from workers.shims.problem.input_slots import InputSlots
from workers.shims.problem.inputs import reaching_inputs, redrawn_inputs
from workers.shims.problem.reference_problem import Problem

CPU = torch.device("cpu")


def _normal() -> torch.Tensor:
    return torch.randn(64, 32)


@pytest.mark.parametrize("rows", [None, 16])
def test_a_piece_is_examined_of_a_problem_that_is_computed_in_pieces(
    tmp_path: Path, rows: int | None
) -> None:
    """Inputs of a gigabyte would not be examined at all."""
    (tmp_path / "reference.py").write_text("")
    problem, seen = Problem(tmp_path, CPU), []

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        seen.append((x.shape, x.untyped_storage().nbytes(), weight.shape))
        return torch.clamp(x @ weight, -500, 500)

    draw = lambda: [_normal(), torch.eye(32)]  # noqa: E731
    spec = SimpleNamespace(piece_rows=rows, work=reaching_inputs.NO_WORK)
    session: Any = SimpleNamespace(model=model, draw=draw, spec=spec)
    plan = InputSlots(problem)._planned(session)
    assert Variant.REACHING in plan.kinds
    size = rows or 64
    assert {each[:2] for each in seen} == {((size, 32), size * 32 * 4)}
    assert {each[2] for each in seen} == {(32, 32)}


@pytest.mark.parametrize(
    ("work", "tried"),
    [
        (ReferenceWork(rest_bytes=1 << 27, rest_operators=3), True),
        (
            ReferenceWork(rest_bytes=1 << 27, rest_operators=3, flops=10**12, products=(10**12,)),
            False,
        ),
        (ReferenceWork(rest_bytes=1 << 40, rest_operators=3), False),
        (ReferenceWork(), False),
    ],
)
def test_indices_beside_large_inputs_are_tried_on_the_host_if_it_has_little_to_do(
    monkeypatch: pytest.MonkeyPatch, work: ReferenceWork, tried: bool
) -> None:
    """The inputs lie on a made-up GPU; a candidate that ignored their order gained 2.7 times."""
    monkeypatch.setattr(redrawn_inputs, "REDRAWN_BYTES", 1 << 10)
    inputs = [_normal(), torch.arange(64)]
    found = redrawn_inputs.standing(
        lambda x, index: x[index].exp(), inputs, frozenset({1}), torch.device("cuda", 0), work
    )
    assert found == ({1} if tried else set())
