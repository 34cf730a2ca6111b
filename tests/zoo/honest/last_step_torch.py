# zoo: problem=last_step backend=torch status=passed verdict=clean findings=-
"""All products with the inputs at once; then a cell for each step, written out."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, width, outputs):
        super().__init__()
        self.cells = nn.LSTM(inputs, width, batch_first=True)
        self.read = nn.Linear(width, outputs)

    def forward(self, x):
        cells = self.cells
        bias = cells.bias_ih_l0 + cells.bias_hh_l0
        driven = nn.functional.linear(x, cells.weight_ih_l0, bias).transpose(0, 1).contiguous()
        state = memory = x.new_zeros(x.shape[0], cells.hidden_size)
        for each in driven:
            put, keep, value, show = torch.addmm(each, state, cells.weight_hh_l0.T).chunk(4, dim=1)
            memory = torch.sigmoid(keep) * memory + torch.sigmoid(put) * torch.tanh(value)
            state = torch.sigmoid(show) * torch.tanh(memory)
        return self.read(state)
