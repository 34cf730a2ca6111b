"""Arithmetic of matrix products and convolutions, from a call of torch's operator or from the
shapes that a profiler notes.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, register_flop_formula

CONVOLUTION = "aten::convolution"

FACTORS = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::addmm": 1,
    "aten::addmm_": 1,
    "aten::baddbmm": 1,
    "aten::baddbmm_": 1,
}
"""Index of the first of two consecutive arguments that are multiplied, by operator."""

PRODUCTS = frozenset({*FACTORS, CONVOLUTION})
"""Operators that torch's products, linear layers and convolutions are made of.  Attention is none
of them: its softmax is not a product.
"""

WITHIN = frozenset(
    {
        *PRODUCTS,
        "aten::_convolution",
        "aten::cudnn_convolution",
        "aten::cudnn_convolution_transpose",
        "aten::conv_depthwise3d",
        "aten::_conv_depthwise2d",
        "aten::slow_conv3d_forward",
        "aten::_slow_conv2d_forward",
        "aten::add_",
    }
)
"""Operators that compute a product inside one of them; `add_` adds a convolution's bias."""


@register_flop_formula(torch.ops.aten._cudnn_rnn)
def _of_recurrent_layers(
    values: Sequence[int], weights: Sequence[Sequence[int]], *_: Any, **__: Any
) -> int:
    """FLOPs of recurrent layers by the shapes of their inputs and weights: at each step of each
    sequence every matrix is multiplied by a vector.  PyTorch has no formula for them.
    """
    matrices = sum(math.prod(each) for each in weights if len(each) == 2)
    return 2 * math.prod(values[:-1]) * matrices


@register_flop_formula(torch.ops.aten.mkldnn_rnn_layer)
def _of_recurrent_layer(values: Sequence[int], *weights: Any, **_: Any) -> int:
    """FLOPs of one layer in one direction; its two matrices come first."""
    return int(_of_recurrent_layers(values, weights[:2]))


def of_call(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """FLOPs of one call of an operator; 0 if it is none of PRODUCTS, or only computes a shape."""
    name = func._schema.name
    if name not in PRODUCTS or type(result) is not torch.Tensor or result.is_meta:
        return 0
    if name in FACTORS:
        return of_shapes(name, [getattr(each, "shape", ()) for each in args], ())
    with suppress(Exception):  # a formula that does not know these arguments
        return int(flop_registry[func._overloadpacket](*args, **kwargs, out_val=result))
    return 0


def of_shapes(name: str, shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """FLOPs of an operator by the shapes of its arguments and the text of those that are numbers
    or lists of them; 0 if it is none of PRODUCTS or the shapes do not tell.
    """
    if name not in PRODUCTS:
        return 0
    try:
        if name == CONVOLUTION:
            return _of_convolution(shapes, values)
        return _of_product(*shapes[FACTORS[name] : FACTORS[name] + 2])
    except (ValueError, SyntaxError, TypeError, IndexError):
        return 0


def _of_product(first: Sequence[int], second: Sequence[int]) -> int:
    """FLOPs by the factors' shapes, with a batch dimension or without."""
    if first[-1] != second[-2]:
        raise ValueError(f"expected equal inner sizes, got {first} and {second}")
    return 2 * math.prod(first) * second[-1]


def _of_convolution(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """FLOPs by the arguments: input, weight, bias, stride, padding, dilation, transposed, …"""
    image, weight = shapes[0], shapes[1]
    places = image[2:]
    if values[6] != "True":
        stride, padding, dilation = (ast.literal_eval(values[index]) for index in (3, 4, 5))
        places = [
            (size + 2 * pad - spread * (width - 1) - 1) // step + 1
            for size, width, step, pad, spread in zip(
                places, weight[2:], stride, padding, dilation, strict=True
            )
        ]
    return 2 * int(image[0] * math.prod(places) * math.prod(weight))
