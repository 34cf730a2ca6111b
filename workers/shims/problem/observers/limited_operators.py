"""Names of the operators that treat some values differently, by the kind of the limit
(operator_limits.py, reference_limits.py).
"""

from __future__ import annotations

import operator
from typing import Any

ORDERS: dict[str, Any] = {
    "aten::ge": operator.ge,
    "aten::gt": operator.gt,
    "aten::le": operator.le,
    "aten::lt": operator.lt,
}
COMPARES = frozenset(
    {
        *ORDERS,
        "aten::fmax",
        "aten::fmin",
        "aten::fmod",
        "aten::hardshrink",
        "aten::maximum",
        "aten::minimum",
        "aten::remainder",
        "aten::softshrink",
        "aten::threshold",
    }
)
"""Operators with one limit, their second argument; for maximum and minimum, either argument."""

CLAMPS = frozenset(
    {
        "aten::clamp",
        "aten::clamp_",
        "aten::clamp_min",
        "aten::clamp_max",
        "aten::clamp_min_",
        "aten::clamp_max_",
        "aten::hardtanh",
        "aten::hardtanh_",
    }
)
DIFFERENCES = frozenset({"aten::huber_loss", "aten::smooth_l1_loss"})
"""Operators on the difference of two tensors, with a limit as the last argument."""

SATURATIONS = {"aten::hardsigmoid": 3.0, "aten::hardswish": 3.0}
"""Operators with a limit of their own, on either side of zero."""

INTO_INTEGERS = frozenset({"aten::_to_copy", "aten::copy_"})
INTO_RANGE = frozenset({"aten::bernoulli", "aten::binary_cross_entropy", "aten::multinomial"})
"""Operators that require probabilities: on a GPU another value ends the process."""

SIGNS = frozenset(
    f"aten::{name}{ending}"
    for name in (
        "abs",
        "celu",
        "elu",
        "leaky_relu",
        "log_sigmoid_forward",
        "relu",
        "rrelu_with_noise",
        "sgn",
        "sign",
        "softplus",
        "_prelu_kernel",
    )
    for ending in ("", "_")
)
"""Operators that treat positive and negative values differently; for values of one
sign they are something simpler.
"""

ROUNDINGS = frozenset(
    f"aten::{name}{ending}"
    for name in ("ceil", "floor", "floor_divide", "fmod", "frac", "remainder", "round", "trunc")
    for ending in ("", "_")
)
"""Operators that round downwards or towards zero, which is the same for positive values, or to the
nearest, which for those is truncation of a half more; so does a division with a rounding mode.
"""

CURVED = frozenset(
    f"aten::{name}{ending}"
    for name in ("asinh", "atan", "erf", "gelu", "mish", "sigmoid", "silu", "sin", "tanh")
    for ending in ("", "_")
)
"""Operators that are nearly a polynomial near zero."""

FUNCTIONS = CURVED | frozenset(
    f"aten::{name}{ending}"
    for name in (
        *("celu", "cos", "cosh", "elu", "erfc", "exp", "exp2", "expm1", "log", "log1p", "log2"),
        *("log_sigmoid_forward", "reciprocal", "rsqrt", "sinh", "softplus", "sqrt", "tan"),
    )
    for ending in ("", "_")
)
"""Functions of one number that a table or a polynomial may replace in a small range."""

CHOICES = frozenset(f"aten::{name}" for name in ("argmax", "argmin", "sort", "topk"))
"""Operators that choose some of many values."""

BY_ORDER = {
    "aten::kthvalue": 2,
    "aten::median": 1,
    "aten::nanmedian": 1,
    "aten::sort": 1,
    "aten::topk": 2,
}
"""Operators that are simpler for values in order, and the place of the dimension along which."""

EQUALITIES = frozenset({"aten::eq", "aten::ne"})
SEARCHES = {"aten::bucketize": 1, "aten::searchsorted": 0}
"""Operators that require a sorted argument, and its place; of an unsorted one they
make something, but no answer.
"""

RANGES = {"aten::histc": slice(2, 4)}
"""Operators that leave out values beyond two of their arguments, and the places of those; unless
both are left to the values.
"""

BOTH_SIGNS = frozenset({"aten::atan2", "aten::atan2_", "aten::copysign", "aten::copysign_"})
"""Operators of two tensors that treat positive and negative values of either differently."""

NORMS = frozenset({"aten::linalg_vector_norm", "aten::norm"})
"""Operators that take absolute values, unless their order, the second argument, is even."""

PADDED = {
    "aten::_embedding_bag": slice(8, 9),
    "aten::_embedding_bag_forward_only": slice(8, 9),
}
"""Operators that leave out those of their indices, the second argument, that equal another one, and
its place.
"""

SAMPLERS = frozenset({"aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::cudnn_grid_sampler"})
"""Operators that read an image at points between −1 and 1, their second argument; beyond, they
assume zeros or repeat its edge.
"""

CLAMPED_LOGARITHMS = frozenset({"aten::binary_cross_entropy"})
"""Operators with a finite logarithm of zero."""

LABELS = frozenset({"aten::nll_loss_forward", "aten::nll_loss2d_forward"})
"""Losses of labels, their second argument, without those that equal the last one."""

NAN = frozenset({"aten::isnan", "aten::nan_to_num", "aten::nan_to_num_", "aten::nansum"})
