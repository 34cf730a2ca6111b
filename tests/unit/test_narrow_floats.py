"""Floats that numpy lacks under Triton's interpreter, against torch's: in a process of its own,
which is told at the start that kernels are interpreted.
"""

import json
import subprocess
import sys

import pytest

KERNELS = """
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from workers.backends.interpreter import narrow_floats
narrow_floats.install()

@triton.jit
def convert(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))

@triton.jit
def cut(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    kind: tl.constexpr = out.dtype.element_ty
    tl.store(out + at, tl.load(x + at).to(kind, fp_downcast_rounding="rtz"))

@triton.jit
def combine(x, y, out, less, full, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(less + at, a < b)
    tl.store(full + at, tl.full((N,), 1.5, tl.bfloat16))
    tl.store(out + at, tl.where(a < b, a * b + 2.0, tl.maximum(-a, b) / 3.0))

@triton.jit
def product(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at)))

@triton.jit
def summed(x, out, AXIS: tl.constexpr, KEPT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.sum(tl.load(x + at), AXIS, keep_dims=KEPT)
    tl.store(out + tl.arange(0, N), tl.reshape(total, (N,)))

@triton.jit
def summed_whole(x, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out, tl.sum(tl.load(x + at)))

def same(a, b):
    return bool(torch.equal(a.double().nan_to_num(7e77), b.double().nan_to_num(7e77)))

torch.manual_seed(0)
found = {}
edge = torch.tensor([127.8, -31.84, 0.001, 0.0017, 400.0, 0.0, -0.0, 3.0e-5])
x = torch.cat([edge, torch.linspace(-440, 440, 1000), torch.randn(16)])
for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
    kind = getattr(torch, name)
    narrow, wide = torch.empty(1024, dtype=kind), torch.empty(1024)
    convert[(1,)](x, narrow, 1024)
    convert[(1,)](x.to(kind), wide, 1024)
    found[f"to {name}"] = same(narrow, x.to(kind))
    found[f"from {name}"] = same(wide, x.to(kind).float())
for name in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"):
    narrow = torch.empty(1024, dtype=getattr(torch, name))
    cut[(1,)](x, narrow, 1024)
    nearest = x.to(narrow.dtype)
    codes = nearest.view(torch.int16 if narrow.itemsize == 2 else torch.int8)
    codes -= (nearest.double().abs() > x.double().abs()).to(codes.dtype)
    found[f"towards zero to {name}"] = same(narrow, nearest)
narrow = torch.empty(2, dtype=torch.float8_e4m3fn)
convert[(1,)](torch.tensor([1e6, float("nan")]), narrow, 2)
found["largest"] = narrow[0].item() == 448 and narrow[1].isnan().item()
whole = torch.empty(1024, dtype=torch.int32)
convert[(1,)](x.bfloat16(), whole, 1024)
found["to whole numbers"] = same(whole, x.bfloat16().int())
convert[(1,)](whole, narrow := torch.empty(1024, dtype=torch.bfloat16), 1024)
found["from whole numbers"] = same(narrow, whole.bfloat16())

a, b = torch.randn(64).bfloat16(), torch.randn(64).bfloat16()
out, full = torch.empty(64).bfloat16(), torch.empty(64).bfloat16()
less = torch.empty(64, dtype=torch.bool)
combine[(1,)](a, b, out, less, full, 64)
found["less"] = same(less, a < b)
found["constant"] = same(full, torch.full((64,), 1.5))
found["arithmetic"] = same(out, torch.where(a < b, a * b + 2.0, torch.maximum(-a, b) / 3.0))
for name in ("bfloat16", "float8_e4m3fn"):
    p, q = (torch.randn(16, 16).to(getattr(torch, name)) for _ in range(2))
    product[(1,)](p, q, out := torch.empty(16, 16), 16)
    found[f"dot of {name}"] = bool(torch.allclose(out, p.float() @ q.float(), atol=1e-5))
for name in ("bfloat16", "float8_e5m2"):
    whole = torch.randint(-1, 2, (16, 16)).float()
    whole[:, 3:] = 0
    whole[3:, :] = 0
    kind = getattr(torch, name)
    for axis in (0, 1):
        for kept in (False, True):
            summed[(1,)](whole.to(kind), out := torch.empty(16, dtype=kind), axis, kept, 16)
            found[f"sum of {name} along {axis}, kept: {kept}"] = same(out, whole.sum(axis).to(kind))
    summed_whole[(1,)](whole.to(kind), out := torch.empty(1, dtype=kind), 16)
    found[f"sum of {name}"] = same(out, whole.sum()[None].to(kind))
small = torch.full((16, 16), 2.0**-8)
small[0] = 1.0
summed[(1,)](small.bfloat16(), out := torch.empty(16).bfloat16(), 0, False, 16)
found["sum rounds after each addition"] = same(out, torch.full((16,), 1.0546875))
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Comparisons by name."""
    path = tmp_path_factory.mktemp("narrow") / "kernels.py"
    path.write_text(KERNELS)
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{way} {kind}"
            for way in ("to", "from")
            for kind in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
        ),
        *(f"towards zero to {kind}" for kind in ("bfloat16", "float16", "float8_e4m3fn")),
        "towards zero to float8_e5m2",
        "largest",
        "to whole numbers",
        "from whole numbers",
        "less",
        "constant",
        "arithmetic",
        "dot of bfloat16",
        "dot of float8_e4m3fn",
        *(
            f"sum of {kind}{along}"
            for kind in ("bfloat16", "float8_e5m2")
            for along in (
                "",
                *(f" along {axis}, kept: {kept}" for axis in (0, 1) for kept in (False, True)),
            )
        ),
        "sum rounds after each addition",
    ],
)
def test_as_torch_computes(found: dict[str, bool], name: str) -> None:
    """Conversions, comparisons, arithmetic and products of narrow floats are torch's."""
    assert found[name]
