"""Parameters and buffers of a reference that other weights could not be told from: of equal values,
following from others, or behind a zero.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from workers.protocol import problem_spec
from workers.shims.problem import constant_parameters
from workers.shims.problem.constant_parameters import Uses
from workers.shims.problem.observers.closed_gates import ClosedGates


class Model(nn.Module):
    """All kinds of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 4)
        self.narrow = nn.Parameter(torch.full((2, 3), 0.5, dtype=torch.float16))
        self.one = nn.Parameter(torch.ones(1))
        self.gate = nn.Parameter(torch.zeros(()))
        self.nothing = nn.Parameter(torch.ones(0))
        self.endless = nn.Parameter(torch.full((4,), float("inf")))
        self.unknown = nn.Parameter(torch.full((4,), float("nan")))
        self.unit = nn.Parameter(torch.eye(3))
        self.pair = nn.Parameter(torch.tensor([0.25, 0.5]))
        self.faint = nn.Parameter(torch.tensor(1e-6))
        self.temperature = nn.Parameter(torch.tensor(0.07))
        self.given = nn.Parameter(torch.tensor(0.5), requires_grad=False)
        self.mask = nn.Parameter(torch.eye(3), requires_grad=False)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.whole = nn.Parameter(torch.ones(4, dtype=torch.int64), requires_grad=False)
        self.register_buffer("kept", torch.zeros(4))


class Buffered(nn.Module):
    """Buffers with and without effect."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Module()
        self.norm.register_buffer("weight", torch.ones(12))
        self.norm.register_buffer("running_mean", torch.zeros(12))
        self.register_buffer("scale", torch.ones(1, 12, 1, 1))
        self.register_buffer("position_bias", torch.zeros(4, 5, 5))
        self.register_buffer("mask", torch.ones(12, 12))  # or a matrix of ones, which adds
        self.register_buffer("causal", torch.ones(12, 12).tril())
        self.register_buffer("unit", torch.eye(12))
        self.register_buffer("filter", torch.ones(1, 1, 5))
        self.register_buffer("slopes", torch.full((12,), 0.5))
        self.register_buffer("epsilon", torch.tensor(0.0))
        self.register_buffer("state", torch.zeros(12), persistent=False)
        self.register_buffer("places", torch.zeros(12, dtype=torch.int64))


def test_constants_are_buffers_without_effect_that_a_checkpoint_holds() -> None:
    assert constant_parameters.of(Buffered()) == (
        "scale",
        "position_bias",
        "norm.weight",
        "norm.running_mean",
    )


class Gated(nn.Module):
    """A branch behind a single zero of a checkpoint, which `use` reads."""

    gate: torch.Tensor

    def __init__(self, use: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.use = use
        self.register_buffer("gate", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.use(self.gate, x)


@pytest.mark.parametrize(
    ("use", "constants"),
    [
        (lambda gate, x: x + gate * x.sin(), ("gate",)),
        (lambda gate, x: x + x.sin().mul_(torch.tanh(gate)), ("gate",)),
        (lambda gate, x: torch.lerp(x, x.sin(), gate), ("gate",)),
        (lambda gate, x: torch.addcmul(x, x.sin(), gate), ("gate",)),
        (lambda gate, x: torch.maximum(x, gate), ()),
        (lambda gate, x: x - gate, ()),
        (lambda gate, x: x * (1 - gate), ()),
    ],
)
def test_a_single_zero_counts_where_a_tensor_is_multiplied_by_one(
    use: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], constants: tuple[str, ...]
) -> None:
    model, gates = Gated(use), ClosedGates()
    with gates:
        model(torch.randn(8, 4))
    assert constant_parameters.of(model, (), Uses(has_gates=gates.found)) == constants


NORM = "normed.parametrizations.weight.original0"


class Related(nn.Module):
    """Parameters that follow from others, or are orthonormal, until they are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Parameter(torch.randn(6, 9))
        self.transposed = nn.Parameter(self.plain.detach().T.clone())
        self.square = nn.Parameter(nn.init.orthogonal_(torch.empty(8, 8)))
        self.filters = nn.Parameter(3 * nn.init.orthogonal_(torch.empty(4, 2, 3, 3)))
        self.tall = nn.Parameter(nn.init.orthogonal_(torch.empty(20, 5)))
        self.basis = nn.Parameter(nn.init.orthogonal_(torch.empty(8, 8)), requires_grad=False)
        self.normed = torch.nn.utils.parametrizations.weight_norm(nn.Linear(7, 5, bias=False))
        self.vectors = nn.Parameter(torch.randn(2, 7))
        self.heads = nn.Parameter(torch.randn(6, 2).repeat(1, 3))
        self.rank = nn.Parameter(torch.ones(6, 1) @ torch.randn(1, 4))
        self.faint = nn.Parameter(1e-4 * torch.randn(3, 4))


def test_constants_are_parameters_that_follow_from_others() -> None:
    expected = ("faint", "transposed", "square", "filters", "tall", "heads", "rank", NORM)
    assert constant_parameters.of(Related()) == expected


def test_a_wide_layer_is_not_faint() -> None:
    assert constant_parameters.of(nn.Linear(20_000, 3)) == ()


def test_constants_are_parameters_that_are_all_equal() -> None:
    single = ("one", "gate", "unit", "faint", "temperature")
    expected = ("narrow", *single, "frozen", "norm.weight", "norm.bias", "kept")
    assert constant_parameters.of(Model()) == expected
    assert constant_parameters.of(Model(), (*expected[:-3], "norm.bias", "kept", "input 1")) == (
        "norm.weight",
    )
    assert constant_parameters.of(nn.Linear(4, 4)) == ()
    assert constant_parameters.of(nn.ReLU()) == ()
    assert constant_parameters.of(object()) == ()


def test_statistics_of_norms_count_where_they_are_read() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.BatchNorm1d(4))
    weights = ("0.weight", "0.bias", "1.weight", "1.bias")
    assert constant_parameters.of(model) == weights
    model[1].eval()
    assert constant_parameters.of(model) == (*weights, "1.running_mean", "1.running_var")
    assert constant_parameters.of(nn.BatchNorm1d(4, affine=False).eval()) == (
        "running_mean",
        "running_var",
    )


def test_copies_of_other_parameters_count_and_tied_ones_do_not() -> None:
    layer = nn.Linear(4, 4)
    model = nn.ModuleList([layer, copy.deepcopy(layer), nn.Linear(4, 4), layer])
    assert constant_parameters.of(model) == ("1.weight", "1.bias")
    assert constant_parameters.of(model, ("1.weight",)) == ("1.bias",)


def test_as_many_as_there_are_bits() -> None:
    model = nn.ModuleList(nn.LayerNorm(2) for _ in range(problem_spec.MAX_CONSTANTS))
    assert len(constant_parameters.of(model)) == problem_spec.MAX_CONSTANTS
