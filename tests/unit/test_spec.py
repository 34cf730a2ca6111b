import json
import os
from dataclasses import asdict
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.protocol import layout, problem_spec, shared_memory
from workers.shims.problem import memory_estimate

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.text(max_size=5),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


def _arena(size: int) -> shared_memory.Memory:
    fd, arena = shared_memory.create(torch.device("cpu"), size)
    os.close(fd)
    return arena


def _round_trip(value: Any) -> Any:
    node = layout.check(json.loads(json.dumps(layout.describe(value))))
    region = layout.lay_out(0, 1, [node])
    arena = _arena(max(region.stop, 1))
    views = region.views(arena, 0)
    for view, item in zip(views, layout.values(value), strict=True):
        view.copy_(item) if isinstance(item, torch.Tensor) else view.fill_(item)
    return layout.rebuild(node, iter(region.views(arena, 0)))


ONE = layout.describe([torch.ones(3)])
SPEC = problem_spec.ProblemSpec(
    inputs=ONE,
    outputs=ONE,
    init=layout.describe([[], {}]),
    parameters={"w": layout.describe(torch.ones(5))},
    training=True,
    truth="fp64",
    mutated_inputs=(),
    output_constant=False,
)


@given(_values)
def test_values_come_back_through_memory(value: Any) -> None:
    assert _round_trip(value) == value


def test_tensors_keep_dtype_shape_and_stride() -> None:
    value = [
        torch.arange(12.0).reshape(3, 4).T,
        torch.ones(2, 3, dtype=torch.int8),
        torch.tensor(5),
        torch.empty(0, 3),
    ]
    back = _round_trip(value)
    assert all(torch.equal(a, b) for a, b in zip(value, back, strict=True))
    assert back[0].stride() == value[0].stride()
    assert [each.dtype for each in back] == [each.dtype for each in value]


@given(st.permutations(range(4)), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_strided_tensor_in_the_order_of_its_memory_is_contiguous(
    order: list[int], shape: list[int]
) -> None:
    tensor = torch.rand(shape).permute(order)
    node = layout.describe(tensor)
    moved = tensor.permute(layout.memory_order(node))
    assert moved.is_contiguous()
    assert layout.in_memory_order(node) == layout.describe(moved)


def test_overlapping_tensors_become_plain() -> None:
    value = torch.arange(3.0).expand(4, 3)
    back = _round_trip([value])[0]
    assert torch.equal(back, value)
    assert back.is_contiguous()


def test_each_view_has_a_storage_of_its_own() -> None:
    region = layout.lay_out(0, 64, [layout.describe([torch.ones(256), torch.ones(8)])])
    arena = _arena(region.stop)
    assert [view.untyped_storage().nbytes() for view in region.views(arena, 7)] == [1024, 32]


@pytest.mark.parametrize("value", [object(), {1: 2}, torch.nn.ReLU(), {"a": {3.5}}])
def test_what_cannot_be_carried_is_named(value: Any) -> None:
    with pytest.raises(layout.UnsupportedError, match=r"cannot be handed|not supported"):
        layout.describe(value)


@pytest.mark.parametrize(
    "node",
    [
        None,
        {"kind": "object"},
        {"kind": "tensor", "dtype": "float32", "shape": [-1], "stride": None},
        {"kind": "tensor", "dtype": "float33", "shape": [1], "stride": None},
        {"kind": "tensor", "dtype": "float32", "shape": [True], "stride": None},
        {"kind": "tensor", "dtype": "float32", "shape": [2, 2], "stride": [100, 1]},
        {"kind": "tensor", "dtype": "float32", "shape": [1 << 41], "stride": None},
        {"kind": "list", "items": "abc"},
        {"kind": "dict", "keys": ["a"], "items": []},
    ],
)
def test_a_spec_that_lies_about_memory_is_refused(node: Any) -> None:
    with pytest.raises(layout.UnsupportedError):
        layout.check(node)


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([NAN, 1.0], [NAN, 1.0], True),
        ([NAN, 1.0], [0.0, 1.0], False),
        ([INFINITY], [torch.finfo(torch.float32).max], False),
        ([INFINITY, -INFINITY], [INFINITY, -INFINITY], True),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_what_is_not_finite_equals_itself_and_nothing_else(
    one: list[float], other: list[float], expected: bool
) -> None:
    assert layout.same({"x": torch.tensor(one)}, {"x": torch.tensor(other)}) is expected
    assert layout.same(one, other) is expected


def test_deep_nesting_is_refused() -> None:
    value: Any = 1
    for _ in range(50):
        value = [value]
    with pytest.raises(layout.UnsupportedError, match="deeper"):
        layout.describe(value)


def test_expected_values_lie_beyond_the_candidates_arena() -> None:
    place = problem_spec.arena(SPEC, 4)
    assert (
        place.candidate_bytes <= place.baseline.start < place.expected.start < place.reference_bytes
    )
    assert problem_spec.ProblemSpec.checked(json.loads(json.dumps(asdict(SPEC)))) == SPEC


def test_an_estimate_of_a_model_of_very_many_operations_ends() -> None:
    class Endless(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while True:
                x = x + 1

    inputs = 3 * 4 * 4
    assert memory_estimate.estimated_bytes(lambda: [torch.ones(4)], Endless) == inputs


@pytest.mark.parametrize("call_us", [-1.0, float("nan"), float("inf"), "1"])
def test_a_time_that_is_none_is_refused(call_us: object) -> None:
    with pytest.raises(layout.UnsupportedError, match="not a time"):
        problem_spec.ProblemSpec.checked({**asdict(SPEC), "call_us": call_us})
