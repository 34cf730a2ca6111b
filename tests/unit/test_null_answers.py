"""Problems on which a right answer proves little: ignored inputs, and answers
without computation.
"""

from typing import Any

import pytest
import torch
from torch import nn

from workers.referee.comparison import null_answers
from workers.shims.problem import input_sensitivity


class Partial(nn.Module):
    """Ignores its second input, and `unused`; its state would show whether it was run as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.unused = nn.Parameter(torch.ones(3))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, ignored: torch.Tensor, scale: float) -> torch.Tensor:
        return self.norm(self.linear(x)) * scale


def call(model: Any, given: list[Any]) -> Any:
    with torch.no_grad():
        return model(*given)


def drawn(seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return [torch.randn(8, 4), torch.randn(8), 2.0]


def test_what_a_reference_ignores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_sensitivity, "LOOK_S", 60.0)  # however busy the machine is
    model, inputs = Partial(), drawn(1)
    outputs = call(model, inputs)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert input_sensitivity.insensitive_names(call, model, inputs, drawn(2), outputs) == (
        "input 1",
        "unused",
    )
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(inputs[0], drawn(1)[0])


def test_inputs_that_never_change_say_nothing() -> None:
    def ignores_all(model: Any, given: list[Any]) -> Any:
        return torch.ones(2)

    same = [torch.ones(3)]
    assert (
        input_sensitivity.insensitive_names(
            ignores_all, object(), same, [torch.ones(3)], torch.ones(2)
        )
        == ()
    )
    assert input_sensitivity.insensitive_names(
        ignores_all, object(), same, [torch.zeros(3)], torch.ones(2)
    ) == ("input 0",)


def test_a_slow_reference_is_not_asked_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_sensitivity, "LOOK_S", -1.0)
    asked = []

    def ignores_all(model: Any, given: list[Any]) -> Any:
        asked.append(given)
        return torch.ones(1)

    input_sensitivity.insensitive_names(ignores_all, object(), [1, 2, 3], [4, 5, 6], torch.ones(1))
    assert len(asked) == 1


def right(*leaves: torch.Tensor) -> tuple[str, ...]:
    return null_answers.accepted([leaf.double() for leaf in leaves], list(leaves))


def test_answers_that_nobody_computed() -> None:
    torch.manual_seed(0)
    usual = torch.randn(4, 1000)
    assert right(usual) == ()
    assert right(torch.zeros(4, 1000)) == ("zeros", "mean", "another_call")
    assert right(torch.full((4, 1000), 3.0)) == ("mean", "another_call")
    assert right(torch.randn(1000).expand(4, 1000).contiguous()) == ("another_call",)
    assert right(torch.zeros(4, 10, dtype=torch.int64)) == ("zeros", "another_call")
    assert right(torch.zeros(4, 1000), usual) == ()  # one of two outputs proves something
    assert right(torch.zeros(4, 0)) == ()
    assert right(torch.full((1, 10), 2.0)) == ("mean",)
    assert right(torch.rand(4, 1)) == ()  # the mean of one number is itself
    assert right(torch.rand(4, 1).expand(4, 1000).contiguous()) == ()  # and that of its copies
