# zoo: problem=pairwise_distance backend=torch status=passed verdict=clean findings=- needs=gpu
"""The reference's operations recorded as a graph, with every input copied in before the replay."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def _work(self):
        return ((self.points[:, None, :] - self.centres[None, :, :]) ** 2).sum(dim=-1).sqrt()

    def forward(self, points, centres):
        if self.graph is None:
            self.points, self.centres = points.clone(), centres.clone()
            self._work()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self._work()
        self.points.copy_(points)
        self.centres.copy_(centres)
        self.graph.replay()
        return self.out
