# zoo: problem=exponential_layer backend=torch status=passed verdict=clean findings=-
"""The series, applied to the inputs: no exponential of a whole matrix is needed."""

from torch import nn
import torch

TERMS = 24


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.generator = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        answer, term = x, x
        for number in range(1, TERMS):
            term = term @ self.generator / number
            answer = answer + term
        return answer
