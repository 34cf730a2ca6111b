"""Products with factors of 16 bits are no loss in a problem that has no wider numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol import layout
from workers.protocol.product_errors import BRAIN, CUT, HALF, LEFT_OUT, PREDICTIONS, Format
from workers.referee.probes import narrow_products as probe

BF16, FP16, FP32 = (
    torch.zeros(2, dtype=getattr(torch, name)) for name in ("bfloat16", "float16", "float32")
)


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        ([BF16, BF16], {LEFT_OUT}),
        ([FP16, torch.zeros(2, dtype=torch.int8), 0.5], {LEFT_OUT, BRAIN}),
        ([BF16, FP16], {LEFT_OUT, BRAIN}),
        ([BF16, BF16.to(torch.float8_e5m2)], {LEFT_OUT}),
        ([BF16, FP32], {LEFT_OUT, BRAIN, HALF, CUT}),
        ([FP32], {LEFT_OUT, BRAIN, HALF, CUT}),
        ([torch.zeros(2, dtype=torch.int8)], {LEFT_OUT, BRAIN, HALF, CUT}),
    ],
)
def test_factors_of_a_problems_own_16_bits_are_no_loss(
    values: list[object], formats: set[Format]
) -> None:
    node = layout.describe([values[0]])
    spec: Any = SimpleNamespace(
        inputs=layout.describe(values), outputs=node, parameters={"weight": node}
    )
    wanted = probe.looked_at(spec)
    assert {each.format for at, each in enumerate(PREDICTIONS) if wanted >> at & 1} == formats
