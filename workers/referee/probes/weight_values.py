"""Other values for parameters, written into the arenas of the reference and the candidate."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import torch

from workers.protocol import layout, moved_weights, problem_spec
from workers.protocol.moved_weights import SPREAD
from workers.referee.processes.process_session import synchronize
from workers.referee.session.call_runner import CallRunner

SMALL = problem_spec.SMALL_CONSTANT
"""Values up to which a parameter is replaced as zeros are: a scale of 1e-6 hides its layer."""

FAR = 3.0
"""Values beyond which a parameter is replaced by one between itself and zero: a saturated
sigmoid hides the terms behind it.
"""


LASTING, ROOT = 4.0, 1 / 64
"""Standard deviation of numbers added to the parameters from which a step finds its factors: a
sigmoid of three is 0.95; and the power of factors themselves.
"""

BESIDE_A_STATE = 1 / 16
"""Factor on the weights of an input that is joined with a state: a state of the size of many
inputs saturates, and then forgets.
"""

LARGER = 1.5
"""Factor on weights that are changed in place, besides SPREAD: a norm of the new ones differs."""

PAIRS, PER_PAIR = 8, 4096
"""Least number of pairs of elements that are exchanged, and elements for each pair."""

ALIKE_PAIRS, TRIES, TRIES_S = 4, 128, 1.0
"""Pairs that are exchanged so that no sum of all elements changes by a rounding; exchanges that are
tried for a parameter; and seconds for all parameters together, after which no further one is.
"""

AT_ONCE = 1 << 26
"""Most elements of a parameter of which elements are exchanged so: each try reads all of them a
dozen times, and copies them in fp64.
"""


def redraw(
    runner: CallRunner,
    spec: problem_spec.ProblemSpec,
    names: tuple[str, ...],
    seed: bytes,
    *,
    larger: bool = False,
    telling: bool = False,
) -> None:
    """Write other values for these parameters into both arenas.  `larger`: values that differ in
    size as well, and no orthogonal ones; `telling`: factors with which a state lasts, and values
    that the reference's operators tell apart.
    """
    reference_memory, candidate_memory = runner.reference.prefix, runner.candidate.prefix
    generator = _generator(reference_memory.device, seed)
    for name, leaf, span in _spans(runner, spec, names):
        values = reference_memory[span].view(layout.dtype_of(leaf))
        noise = SPREAD * torch.randn(values.shape, generator=generator, device=values.device)
        nearer = values * torch.rand(values.shape, generator=generator, device=values.device)
        moved = torch.where(values.abs() > FAR, nearer, values * noise.exp())
        redrawn = torch.where(values.abs() <= SMALL, noise, moved)
        if larger:
            redrawn *= LARGER
        elif (place := spec.recurrent.get(name)) is not None:
            redrawn = values * BESIDE_A_STATE
            if place >= 0:
                redrawn = _orthogonal(values, leaf["shape"], place, generator)
        elif name in spec.recurrent and telling:
            redrawn = _lasting(values, noise)
        elif name in spec.telling and telling:
            redrawn = moved_weights.moved(values, spec.telling[name], generator)
        values.copy_(moved_weights.in_order(values, redrawn))
        candidate_memory[span].copy_(reference_memory[span])
    synchronize(reference_memory.device)


def exchange(
    runner: CallRunner, spec: problem_spec.ProblemSpec, names: tuple[str, ...], seed: bytes
) -> None:
    """Exchange a few pairs of elements of each of these parameters in both arenas: their sum and
    size stay, and most samples.
    """
    reference_memory, candidate_memory = runner.reference.prefix, runner.candidate.prefix
    generator = _generator(reference_memory.device, seed)
    for _, leaf, span in _spans(runner, spec, names):
        values = reference_memory[span].view(layout.dtype_of(leaf))
        pairs = min(len(values) // 2, max(PAIRS, len(values) // PER_PAIR))
        drawn = torch.randperm(len(values), generator=generator, device=values.device)
        values[drawn[: 2 * pairs]] = values[drawn[: 2 * pairs].roll(pairs)]
        candidate_memory[span].copy_(reference_memory[span])
    synchronize(reference_memory.device)


def exchange_alike(
    runner: CallRunner,
    spec: problem_spec.ProblemSpec,
    names: tuple[str, ...],
    seed: bytes,
    *,
    along: int,
) -> None:
    """Exchange pairs of elements of each of these parameters in both arenas so that their sums and
    norms stay to the last bit: a result that is kept as long as these are the same is stale then.
    `along`: 1 for elements of one row, 0 for those of one column.  The parameters are taken in
    random order; those for which no time is left stay as they are.
    """
    reference_memory, candidate_memory = runner.reference.prefix, runner.candidate.prefix
    generator, matrices = _generator(reference_memory.device, seed), []
    for _, leaf, span in _spans(runner, spec, names):
        values = reference_memory[span].view(layout.dtype_of(leaf))
        matrix = values.view(leaf["shape"][0] if len(leaf["shape"]) > 1 else 1, -1)
        matrices.append((matrix, span))
    for matrix, _ in matrices[:1]:  # the first use of an operation on a GPU takes some 20 ms
        exchange_unseen(matrix.clone(), along, generator, math.inf, tries=1)
    until = time.perf_counter() + TRIES_S
    for at in torch.randperm(len(matrices), generator=generator, device=generator.device).tolist():
        matrix, span = matrices[at]
        if exchange_unseen(matrix, along, generator, until):
            candidate_memory[span].copy_(reference_memory[span])
    synchronize(reference_memory.device)


def exchange_unseen(
    matrix: torch.Tensor, along: int, generator: torch.Generator, until: float, tries: int = TRIES
) -> int:
    """Exchange pairs of elements of rows (`along` 1) or columns in place so that no sum of these,
    or of all elements, changes; returns their number.  `until`: time (time.perf_counter) after
    which no further exchange is tried.
    """
    lines = matrix if along else matrix.T
    is_fit = matrix.is_floating_point() and lines.shape[1] > 1 and matrix.numel() <= AT_ONCE
    if not is_fit or time.perf_counter() > until:
        return 0
    before, kept = _digest(matrix, along), 0
    for _ in range(tries):
        line = lines[_drawn(len(lines), generator)]
        pair = _unlike_pair(line, generator)
        line[pair] = line[pair.flip(0)]
        if torch.equal(_digest(matrix, along), before):
            kept += 1
        else:
            line[pair] = line[pair.flip(0)]
        if kept == ALIKE_PAIRS or time.perf_counter() > until:
            break
    return kept


def _drawn(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator, device=generator.device))


def _unlike_pair(line: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Places of two elements: next to each other by size and of other signs, which hardly changes a
    norm's partial sums; any two if the next has the same sign.
    """
    at = _drawn(len(line) - 1, generator)
    pair = line.abs().argsort()[at : at + 2]
    if bool(line[pair].prod() < 0):
        return pair
    return torch.randperm(len(line), generator=generator, device=line.device)[:2]


def _digest(matrix: torch.Tensor, along: int) -> torch.Tensor:
    """Sums over all elements, in their own type and in fp64, and over each row or column."""
    values = matrix.flatten()
    found = []
    for x in (values, values.double()):
        found += [x.sum(), x.abs().sum(), x.square().sum(), torch.linalg.vector_norm(x), x.std()]
    return torch.cat([torch.stack([each.double() for each in found]), matrix.sum(along).double()])


def _spans(
    runner: CallRunner, spec: problem_spec.ProblemSpec, names: tuple[str, ...]
) -> Iterator[tuple[str, layout.Node, slice]]:
    """Name, layout and bytes in both arenas of each of these parameters."""
    region = runner.arena.parameters
    for name, offset, leaf in zip(spec.parameters, region.offsets, region.leaves, strict=True):
        if name in names:
            first = region.start + offset
            yield name, leaf, slice(first, first + layout.size_of(leaf))


def _generator(device: torch.device, seed: bytes) -> torch.Generator:
    return torch.Generator(device).manual_seed(int.from_bytes(seed[:7], "little"))


def _orthogonal(
    values: torch.Tensor, shape: list[int], place: int, generator: torch.Generator
) -> torch.Tensor:
    """Elements of a matrix of this shape with a random orthogonal one in its rows or columns from
    `place` on, and smaller elements than before in the others, so that a state outweighs inputs.
    """
    order, matrix = min(shape), values.view(shape) * BESIDE_A_STATE
    drawn = torch.randn((order, order), generator=generator, device=values.device)
    along = int(shape[0] < shape[1])
    matrix.narrow(along, place, order).copy_(torch.linalg.qr(drawn).Q)
    return matrix.reshape(-1)


def _lasting(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Roots of factors between zero and one; other values moved far to either side."""
    if bool(((values > 0) & (values < 1)).all()):
        return values.pow(ROOT)
    return values + noise * (LASTING / SPREAD)
