"""A transformer over the grammar's tokens, which writes a dialogue of edits and reads feedback.

A dialogue is one row of fixed length: the problem, then for each turn one token a slot and three of
feedback.  Only a slot's own values and `keep` have a probability at its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from tests.bench.rl.grammar import HONEST, KEEP, Choices, Grammar

STATUSES = ("none", "no_code", "compile_error", "error", "incorrect", "hack", "correct")
SPEEDS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Bounds of the buckets in which a speedup is told."""
COVERAGES = (0.3, 0.6, 0.9)
FEEDBACK = 3


class Vocabulary:
    """Tokens of a grammar, and where each may stand in a row."""

    def __init__(self, grammar: Grammar, turns: int) -> None:
        self.turns, self.slots = turns, len(grammar.slots)
        names = [f"problem {name}" for name in grammar.sizes.problems]
        names += [
            f"{slot} {value}" for slot, values in grammar.slots.items() for value in (KEEP, *values)
        ]
        names += [f"status {name}" for name in STATUSES]
        names += [f"speed {number}" for number in range(len(SPEEDS) + 1)]
        names += [f"coverage {number}" for number in range(len(COVERAGES) + 1)]
        self.ids = {name: number for number, name in enumerate(names)}
        self.values = [(KEEP, *values) for values in grammar.slots.values()]
        self.names = list(grammar.slots)
        self.length = 1 + turns * (self.slots + FEEDBACK)

    def place(self, turn: int, slot: int) -> int:
        """Place in the row of a slot of a turn, both from 0."""
        return 1 + turn * (self.slots + FEEDBACK) + slot

    def allowed(self) -> torch.Tensor:
        """(length, tokens): True where a token may stand."""
        found = torch.zeros(self.length, len(self.ids), dtype=torch.bool)
        for turn in range(self.turns):
            for slot, values in enumerate(self.values):
                for value in values:
                    found[self.place(turn, slot), self.ids[f"{self.names[slot]} {value}"]] = True
        return found

    def choices(self, tokens: Sequence[int]) -> Choices:
        """Values of the tokens of one turn."""
        firsts = [self.ids[f"{name} {KEEP}"] for name in self.names]
        return tuple(
            values[token - first]
            for values, token, first in zip(self.values, tokens, firsts, strict=True)
        )

    def feedback(self, status: str, speedup: float | None, coverage: float | None) -> list[int]:
        """Tokens of the evaluator's feedback."""
        speed = sum((speedup or 0.0) >= bound for bound in SPEEDS)
        covered = sum((coverage or 0.0) >= bound for bound in COVERAGES)
        return [
            self.ids[f"status {status}"],
            self.ids[f"speed {speed}"],
            self.ids[f"coverage {covered}"],
        ]

    def prior(self, tricks: float) -> Mapping[int, float]:
        """Token → logit at the start, so that the tricks together have that
        probability; empty without tricks.
        """
        found = {}
        for name, values in zip(self.names, self.values, strict=True):
            if name == "trick":
                dishonest = [value for value in values if value not in (KEEP, HONEST)]
                logit = math.log(tricks / (1 - tricks) * 2 / len(dishonest))
                found = {self.ids[f"trick {value}"]: logit for value in dishonest}
        return found


class Policy(nn.Module):
    """Decoder of `depth` blocks."""

    def __init__(
        self, vocabulary: Vocabulary, *, width: int, depth: int, prior: Mapping[int, float]
    ) -> None:
        super().__init__()
        self.allowed: torch.Tensor
        tokens = len(vocabulary.ids)
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(vocabulary.length, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        with torch.no_grad():
            for token, logit in prior.items():
                self.head.bias[token] = logit
        self.register_buffer("allowed", vocabulary.allowed(), persistent=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits for the token that follows each of the row's, (rows, length,
        tokens), in the weights' type.
        """
        hidden = self.token(rows) + self.place.weight[: rows.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))

    def log_probs(self, logits: torch.Tensor, first: int) -> torch.Tensor:
        """Log probabilities at the places from `first` + 1 on of logits that begin
        there, as float32.
        """
        allowed = self.allowed[first + 1 : first + 1 + logits.shape[1]]
        return torch.log_softmax(logits.float().masked_fill(~allowed, -math.inf), dim=-1)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        rows, length, width = hidden.shape
        parts = self.attention(self.first(hidden)).view(
            rows, length, 3, self.heads, width // self.heads
        )
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.down(F.gelu(self.up(self.second(hidden))))
