"""Weights of a problem under other names in a candidate's model, and those that it
has no place for.
"""

import torch
from torch import nn

from workers.shims import weights

ONES, ZEROS = torch.ones(8), torch.zeros(8)
CONSTANTS = {"weight": ONES, "bias": ZEROS}


def _model(**tensors: torch.Tensor) -> nn.Module:
    model = nn.Module()
    for name, value in tensors.items():
        model.register_parameter(name, nn.Parameter(value))
    return model


def test_the_only_one_alike_stands_for_a_constant() -> None:
    model = _model(scale=ONES, shift=ZEROS)
    assert weights.stand_ins(model, CONSTANTS, set()) == {"weight": "scale", "bias": "shift"}
    assert weights.absent(model, CONSTANTS, set()) == set()


def test_where_several_are_alike_none_does() -> None:
    assert weights.stand_ins(_model(scale=ONES, other=ONES), CONSTANTS, set()) == {}
    two = {"first": ONES, "second": ONES}
    assert weights.stand_ins(_model(scale=ONES), two, set()) == {}


def test_other_shapes_types_and_values_are_not_alike() -> None:
    assert weights.stand_ins(_model(scale=torch.ones(9)), CONSTANTS, set()) == {}
    assert weights.stand_ins(_model(scale=ONES.double()), CONSTANTS, set()) == {}
    assert weights.stand_ins(_model(scale=2 * ONES), CONSTANTS, set()) == {}


def test_a_model_without_anything_has_no_place() -> None:
    assert weights.absent(nn.Module(), CONSTANTS, set()) == {"weight", "bias"}
    assert weights.absent(_model(temperature=torch.ones(1)), CONSTANTS, set()) == {"weight", "bias"}
    assert weights.absent(_model(weight=ONES), CONSTANTS, {"weight"}) == {"bias"}


def test_what_is_as_large_may_hold_packed_weights() -> None:
    assert weights.absent(_model(packed=torch.ones(16)), CONSTANTS, set()) == set()


def test_a_model_that_packs_when_it_is_loaded_has_a_place() -> None:
    model = nn.Module()
    model.register_load_state_dict_post_hook(lambda *_: None)
    assert weights.absent(model, CONSTANTS, set()) == set()
