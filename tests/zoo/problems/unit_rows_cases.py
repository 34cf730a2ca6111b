"""Rows scaled to length one, given by cases: three widths, each drawn anew for every call, with the answers beside."""

import torch

WIDTHS = (64, 96, 301)


def get_cases():
    for width in WIDTHS:
        x = torch.randn(24, width) + 0.25
        unit = x.double() / x.double().norm(dim=1, keepdim=True)
        yield {"name": f"{width} wide", "inputs": [x], "outputs": unit.float(), "rtol": 1e-4, "atol": 1e-6}
