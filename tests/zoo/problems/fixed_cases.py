"""Squares, given by two cases whose inputs and answers are the same in every call."""

import torch


def get_cases():
    return [
        {"name": "small", "inputs": [torch.tensor([1.0, 2.0, 3.0])], "outputs": torch.tensor([1.0, 4.0, 9.0])},
        {"name": "negative", "inputs": [torch.tensor([-5.0, -6.0])], "outputs": torch.tensor([25.0, 36.0])},
    ]
