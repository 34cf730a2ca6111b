"""Variants of a problem's inputs: the same shapes with values that the problem's own distribution
seldom or never has.

A kernel that omits the maximum of a softmax, sums in half precision or mishandles negative numbers
is right on `randn`.  The reference's process makes them (varied_inputs.py and reaching_inputs.py in
workers/shims/problem/inputs), and the referee compares the answers.
"""

from __future__ import annotations

from enum import IntEnum


class Variant(IntEnum):
    """Changes to the inputs; names as in app.domain.output_checks.Trial."""

    OWN = 0
    """The problem's own inputs."""
    SCALED = 1
    """Eight times as large; inputs that come close to the bounds of 0 … 1 or −1 … 1: an eighth;
    inputs within 0 … 0.5: as large as 0.95 at most.
    """
    HEAVY_TAILED = 2
    """Cubed: the largest of 16 million normal values become some 150."""
    SIGN_MIXED = 3
    """Random signs, if the inputs have both signs.  Each row along the last dimension has its
    own share of negative ones: of equal shares every mean is near zero, and a kernel that
    takes it for zero would be right.
    """
    SPARSE = 4
    """Nine of ten are zero; of numbers of one sign, none of them zero, the least of
    the tensor: a scale divides.
    """
    CONSTANT_ROWS = 5
    """Some rows along the last dimension are filled with one of their values, of median size; of
    whole numbers (a mask) half of them with the largest.  Not every second row: then the keys of an
    attention would be equal, and published kernels that invert a triangular matrix by its powers
    would lose all digits, the reference none.
    """
    EDGES = 6
    """An eighth, except at both ends of every dimension of three slices or more: elements that a
    wrong mask leaves out then dominate.
    """
    NONFINITE = 7
    """NaN and both infinities, once each in every tensor; below 64 elements a NaN
    only, below 4 none.
    """
    SPIKED = 8
    """One value in sixteen is multiplied by −16, beyond the range of the distribution: no answer
    has to be right. Shows whether kernels without effect on ordinary inputs have any effect.
    """

    MILD = 9
    """Twice as large; inputs that come close to the bounds of 0 … 1 or −1 … 1: half.  For problems
    with a small domain.
    """
    RESAMPLED = 10
    """Rows along the first dimension with more than one, resampled with replacement; three quarters
    of them are copies of three rows.  Classes of integers: all of them.
    """

    REDRAWN = 11
    """Inputs that are the same in every draw, drawn anew: integers within their range, others
    around their value (workers/shims/problem/inputs/redrawn_inputs.py).
    """
    REACHING = 12
    """Half of the rows scaled so far that values reach limits in the reference's code
    (workers/shims/problem/inputs/reaching_inputs.py).
    """
    SIGNED = 13
    """Half of the elements of inputs of one sign negated, if the reference treats
    both signs differently; of other inputs some slices far below or above zero, if every maximum or
    minimum of the reference lies on one side.
    """
    NAMED = 14
    """Some elements replaced by a value that the reference compares the input with: a padding
    index, a label that a loss ignores, NaN.  Of integers that it only computes with: by values
    beyond their range.
    """
    UNSORTED = 15
    """Sorted inputs shuffled, if the reference sorts them."""
    HELD = 16
    """Rows alike and eight times as large, if the reference iterates
    (workers/shims/problem/inputs/iterated_inputs.py).
    """
    DIAGONAL = 17
    """Nearly diagonal matrices, if the reference iterates."""
    STRETCHED = 18
    """Bounded inputs beyond the range that they are drawn from, if the reference iterates or
    computes functions of their elements: 128 times as large where its answer allows that, else
    eight times.
    """

    LOCAL = 19
    """A few rows are scaled as in SCALED; in as many, the second half repeats the first; in as
    many, every second element the one before; as many are sorted; as many rows or samples are
    faint, and as many negative.
    """
    PARTLY = 20
    """All changes of the kinds REDRAWN, REACHING, SIGNED, NAMED, UNSORTED, STRETCHED and LOOSENED
    that the problem has, each in a few rows or in a box of a tensor
    (workers/shims/problem/inputs/reaching_inputs.py).
    """
    ALIGNED = 21
    """Rows in the order of rows of the model's weights, if the reference chooses the largest
    results or has limits that no result reaches (workers/shims/problem/inputs/aligned_inputs.py).
    """
    LASTING = 22
    """Roots of bounded values, near one, if the reference iterates."""
    TELLING = 23
    """Changed in a way that was found to need the reference's last steps, if it iterates
    (workers/shims/problem/inputs/telling_inputs.py).
    """
    SHRUNK = 24
    """Values beyond −1 … 1 between an eighth and a five-hundredth as large: of a sum that one term
    outweighs the others then count, and functions are no longer saturated.
    """
    BALANCED = 25
    """Random signs for inputs of one sign, if the reference multiplies matrices of one sign: in
    such a product the roundings of its factors average out, so that lower precision does not show.
    """
    EMPTIED = 26
    """A few rows and samples of zeros, or with a single other number, if the reference divides by
    tensors or takes their logarithms, and is finite there.
    """
    LOOSENED = 28
    """Each number off by up to a quarter, if the inputs have a trait that the reference restores:
    it normalises rows of unit length, or symmetrises a symmetric matrix.
    """
    LEVELLED = 27
    """Most elements have one of two magnitudes, with their own signs: the roundings of a factor to
    a narrower type are alike then, however it was scaled, and do not average out.  Only shown to
    candidates whose products are looked at (workers/referee/probes/scaled_factors.py).
    """
    SMALLER = 29
    """All numbers smaller by one power of two, up to the 24th.  Only shown to candidates of
    references with a faint term (workers/referee/probes/faint_terms.py).
    """


REACHED = (
    Variant.REDRAWN,
    Variant.REACHING,
    Variant.SIGNED,
    Variant.NAMED,
    Variant.UNSORTED,
    Variant.HELD,
    Variant.DIAGONAL,
    Variant.STRETCHED,
    Variant.PARTLY,
    Variant.ALIGNED,
    Variant.LASTING,
    Variant.TELLING,
    Variant.BALANCED,
    Variant.EMPTIED,
    Variant.LOOSENED,
)
"""Variants on which an answer must be right, and which only some problems have."""

PROBES = (Variant.NONFINITE, Variant.SPIKED, Variant.LEVELLED, Variant.SMALLER)
"""Variants on which no answer has to be right."""

CHECKED = tuple(each for each in Variant if each not in (Variant.OWN, *PROBES, *REACHED))
"""Variants on which an answer must be right."""

TIED = frozenset(
    {Variant.SPARSE, Variant.CONSTANT_ROWS, Variant.HELD, Variant.LOCAL, Variant.EMPTIED}
)
"""Variants with equal values.  Where the answer has integers that follow from them, and PyTorch
does not define how, the variant is outside the problem's domain.
"""

REPEATED = frozenset({Variant.RESAMPLED})
"""Variants with equal rows, and only as many equal values within a row as the problem's own inputs
have: a choice within rows remains, as that of an expert, and one between rows is a tie.
"""

CLOSER = {
    Variant.REDRAWN: 4.0,
    Variant.NAMED: 30.0,
    Variant.LOCAL: 30.0,
    Variant.ALIGNED: 30.0,
    Variant.BALANCED: 10.0,
}
"""Variants on which kernels round as usual: the largest error of a right answer, in multiples of
the least limit for its type (workers/protocol/roundoff.py).  On others it is 2 %.
"""
