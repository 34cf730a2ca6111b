"""Inputs on which every step of an iteration or a recurrence tells.

On random inputs a method often converges long before its last step, and a recurrence
forgets its first ones: fewer steps give the same answer.  For a reference that iterates
there are four more kinds of inputs:

* Held: one row for the first half of a sequence and another for the second, both eight times as
  large: the same gates stay open for long, and the first half's part of a state can be read at the
  end.  Only of two inputs at most: among more may be keys, and published kernels for a delta
  rule lose all digits where keys are alike, the reference none.
* Diagonal: matrices that are nearly diagonal, with diagonals over eight powers of two: eigenvalues
  lie close.  Of values without a sign, and of no symmetry, those above the diagonal stay, and all
  are eight times as large: scaling rows and columns in turn then converges slowly.
* Stretched: 128 times as large, beyond the range that the inputs are drawn from, where the answer
  keeps its order of size and is well conditioned; else eight times.  Exponentials of them lie far
  apart, and scaling rows and columns in turn converges slowly.  In a part: some matrices, or the
  same rows or the same columns of all of them.
* Lasting: bounded values are replaced by roots of themselves, near one, so that a product of as
  many as a dimension is long does not vanish; any values, if the reference multiplies so.

A contraction forgets at a rate that its weights set: matrices of a model that every step multiplies
a state by are named (`recurrent_places`), and a probe replaces them by orthogonal ones
(workers/referee/probes/perturbed_weights.py).  They are square, or take the state beside an input
(`Linear(cat((x, h)))`).
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol.roundoff import computable, errors
from workers.shims.problem.inputs import input_domain, local_changes

FACTOR = 8

FAR_FACTOR = 128
"""Factor on stretched inputs where the reference allows it."""

SIZES = 100.0
"""Largest ratio of the sizes of its answers then."""

POWERS = 8
"""Powers of two between the least and the largest element of a diagonal."""

MOST_HELD = 2
"""Most inputs of two dimensions or more of a problem with held inputs."""

OFF_DIAGONAL = 1 / 1024
"""Sum of the other elements of a row, at most, in multiples of the largest: a
quarter of the least of the diagonal.
"""

BESIDE = -1
"""Place of a parameter that takes no state but an input, or is added, in every step."""

LEAST_ORDER = 4
"""Rows and columns of the smallest matrix that becomes diagonal."""

LEAST_USES = 8
"""Products with the same input, parameter or buffer from which on a reference iterates."""

LEAST_READINGS = 3
"""Numbers that Python reads out of tensors from which on a reference may iterate until one of them
is small enough.
"""

LEAST_REPEATS = 32
"""Equal operators on equal shapes, in no fixed memory, from which on a reference
iterates: more than a deep network has.
"""

_RECURRENT = frozenset(
    f"aten::{name}"
    for name in (
        "_cudnn_rnn",
        "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell",
        "cumprod",
        "cumsum",
        "gru",
        "logcumsumexp",
        "lstm",
        "mkldnn_rnn_layer",
        "rnn_relu",
        "rnn_tanh",
    )
)
_PRODUCTS = frozenset(
    f"aten::{name}"
    for name in ("addmm", "addmv", "baddbmm", "bmm", "dot", "linear", "matmul", "mm", "mv")
)
_STEPS = frozenset(
    f"aten::{name}"
    for name in ("add", "add_", "addcmul", "div", "mul", "mul_", "sub", "tanh", "where")
)


class Iterations(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that finds out whether a call iterates."""

    def __init__(self, model: Any, leaves: Iterable[Any]) -> None:
        """`leaves`: the inputs of the call."""
        super().__init__()
        leaves = list(leaves)
        weights = (
            [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
        )
        self._fixed = {x.data_ptr() for x in (*weights, *leaves) if isinstance(x, torch.Tensor)}
        self._given = {
            x.untyped_storage().data_ptr() for x in leaves if isinstance(x, torch.Tensor)
        }
        self._uses: Counter[tuple[Any, ...]] = Counter()
        self._states: dict[tuple[int, int], tuple[int, int]] = {}
        """First element and size of the state among tensors that were joined along their last
        dimension, by the keys of the result and of the matrices that it was multiplied by.
        """
        self._takers: set[tuple[int, int]] = set()
        """Keys of the fixed matrices that were multiplied by anything but an input."""
        self._added: dict[tuple[int, int], set[tuple[int, int]]] = {}
        """The same of vectors that were added to products, with the matrices of these."""
        self._is_recurrent = False
        self._readings = 0
        self.multiplies = False
        """True if the call took products of consecutive values."""

    @property
    def found(self) -> bool:
        """True if the call used the same value in many products, or took many equal steps."""
        uses = (
            (LEAST_USES if key[0] in self._fixed else LEAST_REPEATS, n)
            for key, n in self._uses.items()
        )
        return self._is_recurrent or any(n >= least for least, n in uses)

    @property
    def may_stop(self) -> bool:
        """True if Python read several numbers, as a loop does that ends by itself."""
        return self._readings >= LEAST_READINGS

    def recurrent_places(self, model: Any) -> dict[str, int]:
        """Parameters that were used in many products, or in a library's recurrence, and take a
        state as wide as their result; and the row or column from which on they take it: 0 for
        square ones.  Beside such, BESIDE for those that take an input in every step, or are added.
        """
        if not isinstance(model, torch.nn.Module):
            return {}
        some = {name: x for name, x in model.named_parameters() if x.is_floating_point()}
        places = {
            name: self._place(x)
            for name, x in some.items()
            if x.dim() == 2
            and min(x.shape) >= LEAST_ORDER
            and self._uses[x.data_ptr(), x.numel()] >= LEAST_USES
        }
        found = {name: place for name, place in places.items() if place is not None}
        if all(place == BESIDE for place in found.values()):
            return {}
        matrices = {(some[name].data_ptr(), some[name].numel()) for name in found}
        vectors = {key for key, beside in self._added.items() if beside & matrices}
        added = [name for name, x in some.items() if (x.data_ptr(), x.numel()) in vectors]
        return found | dict.fromkeys(added, BESIDE)

    def _place(self, matrix: torch.Tensor) -> int | None:
        """Row or column from which on a matrix takes a state; BESIDE if it takes inputs alone, None
        if it takes a state of another size.
        """
        if (matrix.data_ptr(), matrix.numel()) not in self._takers:
            return BESIDE
        if len(matrix) == matrix.shape[1]:
            return 0
        place, size = self._states.get((matrix.data_ptr(), matrix.numel()), (0, 0))
        return place if size == min(matrix.shape) else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        self._readings += name == "aten::_local_scalar_dense"
        if name in _RECURRENT:
            self._is_recurrent = True
            self.multiplies |= name == "aten::cumprod"
            weights = [x for each in args if isinstance(each, list | tuple) for x in each]
            keys = {key for key in map(_key, weights) if key is not None}
            self._uses.update(dict.fromkeys(keys, LEAST_USES))
            self._takers |= keys
        elif name in _PRODUCTS:
            keys = {key for key in map(_key, args) if key is not None}
            self._uses.update(keys)
            self._note_operands(args, keys)
            made = [key for key in keys if key[0] not in self._fixed and key in self._states]
            for state in [self._states[key] for key in made]:
                self._states.update({key: state for key in keys if key[0] in self._fixed})
        elif name in _STEPS and isinstance(args[0], torch.Tensor):
            self._uses[name, args[0].shape] += 1
        found = func(*args, **(kwargs or {}))
        if name == "aten::cat" and args[1:] and args[1] in (-1, found.dim() - 1):
            self._states[found.data_ptr(), found.numel()] = self._state_among(args[0])
        return found

    def _note_operands(self, args: Any, keys: set[tuple[int, int]]) -> None:
        """Note the matrices and vectors that a product takes beside an input, or anything else."""
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        others = (x for x in tensors if x.dim() > 1 and x.data_ptr() not in self._fixed)
        if any(x.untyped_storage().data_ptr() not in self._given for x in others):
            self._takers |= {key for key in keys if key[0] in self._fixed}
        for x in tensors:
            if x.dim() == 1 and x.data_ptr() in self._fixed:
                self._added.setdefault((x.data_ptr(), x.numel()), set()).update(keys)

    def _state_among(self, joined: list[torch.Tensor]) -> tuple[int, int]:
        """First element and size of the last of the joined tensors that is no part of an input."""
        ends = list(itertools.accumulate(x.shape[-1] for x in joined))
        made = [
            (end - x.shape[-1], x.shape[-1])
            for x, end in zip(joined, ends, strict=True)
            if x.untyped_storage().data_ptr() not in self._given
        ]
        return made[-1] if made else (0, 0)


def _key(x: Any) -> tuple[int, int] | None:
    """Key of a matrix, which its transpose shares; None for anything else."""
    return (x.data_ptr(), x.numel()) if isinstance(x, torch.Tensor) and x.dim() > 1 else None


def held(x: torch.Tensor) -> torch.Tensor:
    """The first row in place of the first half of all, and the last in place of the second, scaled.
    Of three dimensions or more, rows of each slice if there are fewer slices than rows (samples and
    their steps); else slices, of one row each: either dimension may be a sequence's.
    """
    if x.dim() < 2:
        return x
    along = 1 if x.dim() > 2 and x.shape[1] > len(x) else 0
    rows = x[:, :1] if x.dim() > 2 and not along else x
    size = x.shape[along]
    chosen = torch.tensor([0] * (size // 2) + [size - 1] * (size - size // 2), device=x.device)
    return _fitting(x, (rows.index_select(along, chosen) * FACTOR).expand_as(x).clone())


def stretched(x: torch.Tensor, factor: float = FACTOR) -> torch.Tensor:
    """The tensor scaled, if its values are bounded; others are scaled among the usual variants."""
    return _fitting(x, x * factor) if input_domain.is_bounded(x) else x


def stretched_in_part(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The same for a few matrices, or for rows or columns of all: a candidate may look at a sample
    of either to tell how many steps it needs.
    """
    which = int(torch.randint(3, ())) if x.dim() > 1 else 0
    change = functools.partial(stretched, factor=factor)
    if which:
        return _fitting(x, local_changes.in_some_slices(x, change, -which))
    return _fitting(x, local_changes.in_few_rows(x, change, whole=2))


def lasting(x: torch.Tensor, *, are_factors: bool = False) -> torch.Tensor:
    """Roots of bounded values, of an order as high as the longest dimension; `are_factors`: also of
    others.
    """
    if not (are_factors or input_domain.is_bounded(x)) or input_domain.is_whole(x):
        return x
    roots = computable(x).abs().pow(1 / max(x.shape, default=1)).copysign(x).to(x.dtype)
    return roots if input_domain.keeps_structure(x, roots) else x


def are_well_behaved(
    usual: list[torch.Tensor], here: list[torch.Tensor], nearby: list[torch.Tensor]
) -> bool:
    """Test whether answers to changed inputs (`here`) are of about the size of usual ones, and
    those to inputs that differ by rounding (`nearby`) hardly other.
    """
    for answers in zip(usual, here, nearby, strict=True):
        before, after, rounded = (computable(x.detach()) for x in answers)
        sizes = [float(torch.linalg.vector_norm(x.double())) for x in (before, after)]
        if not sizes[0] / SIZES <= sizes[1] <= sizes[0] * SIZES:  # nor if one is not a number
            return False
        if errors(rounded, after)[0] > input_domain.QUIET:
            return False
    return True


def diagonal(x: torch.Tensor) -> torch.Tensor:
    """Nearly diagonal matrices of the size of a tensor's values, or triangular ones.
    Of four dimensions or more only square ones: the others may be heads by channels,
    and keys would be alike.
    """
    if (
        x.dim() < 2
        or min(x.shape[-2:]) < LEAST_ORDER
        or (x.dim() > 3 and x.shape[-1] != x.shape[-2])
    ):
        return x
    largest, order = x.abs().amax(), min(x.shape[-2:])
    powers = POWERS * torch.rand((*x.shape[:-2], order), device=x.device)
    powers[..., 0] = 0
    changed = x * (OFF_DIAGONAL / max(x.shape[-2:]))
    if not bool((x < 0).any()):
        upper = FACTOR * torch.where(torch.ones_like(x, dtype=torch.bool).triu(1), x, changed)
        upper.diagonal(dim1=-2, dim2=-1).copy_(FACTOR * largest * torch.exp2(-powers))
        if _fitting(x, upper) is upper:
            return upper
    changed.diagonal(dim1=-2, dim2=-1).copy_(largest * torch.exp2(-powers))
    return _fitting(x, changed)


def _fitting(x: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """The changed tensor, if it keeps the structure of `x` apart from its bounds; else `x`."""
    return changed if input_domain.keeps_structure(x, changed, bounds=False) else x
