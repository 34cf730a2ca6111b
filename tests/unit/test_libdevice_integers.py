"""Conversions and bits of libdevice against those of CUDA's documentation."""

import math

import pytest
import torch

from workers.backends.interpreter.libdevice_integers import SYMBOLS

HALVES = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.7]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rn", [-2, -2, 0, 0, 2, 2, 4]),
        ("rz", [-2, -1, 0, 0, 1, 2, 3]),
        ("rd", [-3, -2, -1, 0, 1, 2, 3]),
        ("ru", [-2, -1, 0, 1, 2, 3, 4]),
    ],
)
@pytest.mark.parametrize("of", ["float", "double"])
@pytest.mark.parametrize("kind", ["int", "ll"])
def test_roundings(of: str, kind: str, name: str, expected: list[int]) -> None:
    x = torch.tensor(HALVES, dtype=torch.float32 if of == "float" else torch.float64)
    assert SYMBOLS[f"__nv_{of}2{kind}_{name}"](x).tolist() == expected


@pytest.mark.parametrize(
    ("kind", "low", "high", "of_nan"),
    [
        ("int", -(2**31), 2**31 - 1, 0),
        ("uint", 0, 2**32 - 1, 0),
        ("ll", -(2**63), 2**63 - 1, -(2**63)),
    ],
)
def test_what_no_integer_of_the_type_is(kind: str, low: int, high: int, of_nan: int) -> None:
    x = torch.tensor([-math.inf, -1e30, math.inf, 2.0**63, 1e30, math.nan], dtype=torch.float64)
    found = SYMBOLS[f"__nv_double2{kind}_rn"](x)
    assert found.tolist() == [low, low, high, high, high, of_nan]
    assert SYMBOLS[f"__nv_double2{kind}_rn"](torch.tensor([7.0])).tolist() == [7]


def test_a_half_away_from_zero() -> None:
    assert SYMBOLS["__nv_llroundf"](torch.tensor(HALVES)).tolist() == [-3, -2, -1, 1, 2, 3, 4]


@pytest.mark.parametrize("value", [0, 1, 6, -1, 0x40, 0x12345678, -(2**31)])
def test_bits(value: int) -> None:
    x = torch.tensor([value], dtype=torch.int32)
    bits = f"{value & 0xFFFFFFFF:032b}"
    one = {name: int(SYMBOLS[f"__nv_{name}"](x)) for name in ("popc", "clz", "ffs", "brev")}
    assert one["popc"] == bits.count("1")
    assert one["clz"] == len(bits) - len(bits.lstrip("0"))
    assert one["ffs"] == (0 if value == 0 else 32 - bits.rindex("1"))
    assert one["brev"] & 0xFFFFFFFF == int(bits[::-1], 2)


@pytest.mark.parametrize("value", [0, -1, 1 << 40, -(2**63)])
def test_bits_of_64(value: int) -> None:
    x = torch.tensor([value])
    bits = f"{value & 0xFFFFFFFFFFFFFFFF:064b}"
    assert int(SYMBOLS["__nv_popcll"](x)) == bits.count("1")
    assert int(SYMBOLS["__nv_clzll"](x)) == len(bits) - len(bits.lstrip("0"))
    assert int(SYMBOLS["__nv_ffsll"](x)) == (0 if value == 0 else 64 - bits.rindex("1"))
    assert int(SYMBOLS["__nv_brevll"](x)) & 0xFFFFFFFFFFFFFFFF == int(bits[::-1], 2)


def test_the_same_bits_of_another_type() -> None:
    x = torch.tensor([1.0, -0.0])
    as_int = SYMBOLS["__nv_float_as_int"](x)
    assert as_int.tolist() == [0x3F800000, -(2**31)]
    assert SYMBOLS["__nv_int_as_float"](as_int).tolist() == [1.0, 0.0]
    assert SYMBOLS["__nv_double_as_longlong"](x.double()).tolist()[0] == 0x3FF0000000000000


def test_the_upper_half_of_a_product() -> None:
    x, y = torch.tensor([2**30, -(2**31)], dtype=torch.int32), torch.tensor([8, 2**30])
    assert SYMBOLS["__nv_mulhi"](x, y).tolist() == [2, -(2**29)]
    assert SYMBOLS["__nv_ldexpf"](torch.tensor([3.0]), torch.tensor([4])).tolist() == [48.0]
