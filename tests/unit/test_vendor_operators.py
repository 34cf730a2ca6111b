"""The library's work on the CPU device, by operators outside of torch's usual namespace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.unit.test_library_work import charged

SIDE = 128
PRODUCT_BYTES = 2 * SIDE**3 // 20
CHANNELS, SIZE = 32, 24
CONVOLUTION_BYTES = 2 * 2 * CHANNELS * SIZE * SIZE * CHANNELS * 9 // 20

vendor = torch.ops.mkldnn
needs_onednn = pytest.mark.skipif(
    not hasattr(vendor, "_convolution_pointwise") or not torch.backends.mkldnn.is_available(),
    reason="torch was built without oneDNN",
)


@torch.library.custom_op("assay_tests::conv_of_its_own", mutates_args=())
def conv_of_its_own(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """An operator of a candidate, with a product's name and an addition for a body."""
    return x + weight[0, 0, 0, 0]


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, CHANNELS, SIZE, SIZE), torch.randn(CHANNELS, CHANNELS, 3, 3)


def fused(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return vendor._convolution_pointwise(x, weight, None, [1, 1], [1, 1], [1, 1], 1, "none", [], "")


def transposed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return vendor._convolution_transpose_pointwise(
        x, weight, None, [1, 1], [0, 0], [1, 1], [1, 1], 1, "none", [], ""
    )


def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.mkldnn_convolution(x, weight, None, [1, 1], [1, 1], [1, 1], 1)


@needs_onednn
@pytest.mark.parametrize("call", [fused, transposed, plain])
def test_a_convolution_by_onednn_is_charged_by_its_arithmetic(
    call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    x, weight = pictures()
    found = charged(lambda _: call(x, weight), x)
    assert sum(work for _, work in found) == pytest.approx(CONVOLUTION_BYTES, rel=0.2)


@needs_onednn
def test_a_convolution_with_a_packed_weight_is_charged_as_one_with_a_usual_kernel() -> None:
    x, weight = pictures()
    packed = torch.ops.mkldnn_prepacked.conv2d_prepack(
        weight, None, [1, 1], [1, 1], [1, 1], 1, list(x.shape), "none"
    )
    found = charged(lambda _: torch.ops.mkldnn_prepacked.conv2d_run(x, packed), x)
    assert sum(work for _, work in found) == pytest.approx(CONVOLUTION_BYTES, rel=0.2)


@needs_onednn
def test_a_product_by_onednn_is_charged_by_its_arithmetic() -> None:
    x = torch.randn(SIDE, SIDE)
    found = charged(lambda _: vendor._linear_pointwise(x, x, None, "none", [], ""), x)
    assert sum(work for _, work in found) == pytest.approx(PRODUCT_BYTES, rel=0.2)


def test_a_product_with_a_packed_weight_is_charged_by_its_arithmetic() -> None:
    x = torch.randn(SIDE, SIDE)
    try:
        packed = torch.ops.quantized.linear_prepack_fp16(x, None)
    except RuntimeError as error:
        pytest.skip(str(error))
    found = charged(lambda _: torch.ops.quantized.linear_dynamic_fp16(x, packed), x)
    assert sum(work for _, work in found) == pytest.approx(PRODUCT_BYTES, rel=0.2)


def test_an_operator_of_the_candidate_is_charged_for_its_body_alone() -> None:
    x, weight = pictures()
    found = charged(lambda _: conv_of_its_own(x, weight), x)
    assert [name for name, _ in found] == ["aten::add"]


def test_changes_of_a_tensors_view_are_free() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape).t_().unsqueeze_(0).squeeze_(0).as_strided_((SIDE,), (1,))

    assert charged(call, torch.randn(SIDE, SIDE)) == []
