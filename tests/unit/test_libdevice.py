"""libdevice under Triton's interpreter, against Python's own mathematics: in a process of its own,
which is told at the start that kernels are interpreted.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable

import pytest

KERNELS = '''
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from workers.backends.interpreter import libdevice as ours
ours.install()
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as of_cuda

SOURCE = """
@triton.jit
def k(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, {call})
"""

def called(call, x, y, dtype):
    path = sys.argv[1]
    name = f"{path}/k{abs(hash((call, dtype)))}.py"
    open(name, "w").write("import triton, triton.language as tl\\n"
        "from triton.language.extra import libdevice\\n"
        "from triton.language.extra.cuda import libdevice as of_cuda\\n"
        + SOURCE.format(call=call))
    import runpy
    kernel = runpy.run_path(name)["k"]
    out = torch.zeros(len(x), dtype=dtype)
    kernel[(1,)](torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype), out, N=len(x))
    return out.double().tolist()

found = {}
for call, x, y in json.load(sys.stdin):
    try:
        found[call] = [called(call, x, y, dtype) for dtype in (torch.float32, torch.float64)]
    except Exception as error:
        found[call] = f"{type(error).__name__}: {error}"
json.dump(found, sys.stdout)
'''

WIDE = [-3.7, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.2]
UNIT = [-0.9, -0.6, -0.3, -0.1, 0.1, 0.3, 0.6, 0.9]
POSITIVE = [0.1, 0.2, 0.5, 0.9, 1.1, 1.5, 2.5, 3.2]
OTHERS = [1.1, -2.0, 0.7, 3.0, -1.3, 2.0, 0.4, -0.6]


def sign_of(x: float) -> float:
    return math.copysign(1.0, x)


OF_ONE: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "abs": (abs, WIDE),
    "acos": (math.acos, UNIT),
    "acosh": (math.acosh, [1 + x for x in POSITIVE]),
    "asin": (math.asin, UNIT),
    "asinh": (math.asinh, WIDE),
    "atan": (math.atan, WIDE),
    "atanh": (math.atanh, UNIT),
    "cbrt": (lambda x: sign_of(x) * abs(x) ** (1 / 3), WIDE),
    "ceil": (math.ceil, WIDE),
    "cos": (math.cos, WIDE),
    "cosh": (math.cosh, WIDE),
    "cospi": (lambda x: math.cos(math.pi * x), WIDE),
    "erf": (math.erf, WIDE),
    "erfc": (math.erfc, WIDE),
    "erfcx": (lambda x: math.exp(x * x) * math.erfc(x), UNIT),
    "exp": (math.exp, WIDE),
    "exp10": (lambda x: 10.0**x, WIDE),
    "exp2": (lambda x: 2.0**x, WIDE),
    "expm1": (math.expm1, WIDE),
    "floor": (math.floor, WIDE),
    "ilogb": (lambda x: math.frexp(x)[1] - 1, WIDE),
    "lgamma": (math.lgamma, WIDE),
    "llrint": (round, WIDE),
    "llround": (lambda x: sign_of(x) * math.floor(abs(x) + 0.5), WIDE),
    "log": (math.log, POSITIVE),
    "log10": (math.log10, POSITIVE),
    "log1p": (math.log1p, POSITIVE),
    "log2": (math.log2, POSITIVE),
    "logb": (lambda x: math.frexp(x)[1] - 1, WIDE),
    "nearbyint": (round, WIDE),
    "normcdf": (lambda x: math.erfc(-x / math.sqrt(2)) / 2, WIDE),
    "rint": (round, WIDE),
    "round": (lambda x: sign_of(x) * math.floor(abs(x) + 0.5), WIDE),
    "rsqrt": (lambda x: 1 / math.sqrt(x), POSITIVE),
    "sin": (math.sin, WIDE),
    "sinh": (math.sinh, WIDE),
    "sinpi": (lambda x: math.sin(math.pi * x), WIDE),
    "sqrt": (math.sqrt, POSITIVE),
    "tan": (math.tan, WIDE),
    "tanh": (math.tanh, WIDE),
    "tgamma": (math.gamma, WIDE),
    "trunc": (math.trunc, WIDE),
    "rcp_rn": (lambda x: 1 / x, WIDE),
    "sqrt_rn": (math.sqrt, POSITIVE),
    "rcbrt": (lambda x: x ** (-1 / 3), POSITIVE),
}
OF_TWO: dict[str, tuple[Callable[[float, float], float], list[float]]] = {
    "atan2": (math.atan2, WIDE),
    "copysign": (math.copysign, WIDE),
    "fdim": (lambda x, y: max(x - y, 0), WIDE),
    "fmod": (math.fmod, WIDE),
    "hypot": (math.hypot, WIDE),
    "pow": (math.pow, POSITIVE),
    "remainder": (math.remainder, WIDE),
    "add_rn": (lambda x, y: x + y, WIDE),
    "div_rn": (lambda x, y: x / y, WIDE),
    "mul_rn": (lambda x, y: x * y, WIDE),
    "sub_rn": (lambda x, y: x - y, WIDE),
}
REFUSED = ("libdevice.erfcinv(a)", "libdevice.add_rz(a, b)")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    """Results of interpreted kernels for each call, in single and in double precision."""
    calls: list[tuple[str, list[float], list[float]]] = []
    calls += [(f"libdevice.{name}(a)", xs, OTHERS) for name, (_, xs) in OF_ONE.items()]
    calls += [(f"of_cuda.{name}(a, b)", xs, OTHERS) for name, (_, xs) in OF_TWO.items()]
    calls += [(call, WIDE, OTHERS) for call in REFUSED]
    calls += [
        ("libdevice.fma(a, b, b)", WIDE, OTHERS),
        ("libdevice.isnan(a / 0.0 * 0.0)", WIDE, OTHERS),
    ]
    folder = str(tmp_path_factory.mktemp("kernels"))
    ran = subprocess.run(
        [sys.executable, "-c", KERNELS, folder],
        input=json.dumps(calls),
        text=True,
        capture_output=True,
        timeout=300,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_number(found: dict[str, list[list[float]]], name: str) -> None:
    function, xs = OF_ONE[name]
    single, double = found[f"libdevice.{name}(a)"]
    assert double == pytest.approx([function(x) for x in xs], rel=1e-12, abs=1e-15)
    assert single == pytest.approx([function(x) for x in xs], rel=3e-5, abs=1e-6)


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two(found: dict[str, list[list[float]]], name: str) -> None:
    function, xs = OF_TWO[name]
    single, double = found[f"of_cuda.{name}(a, b)"]
    expected = [function(x, y) for x, y in zip(xs, OTHERS, strict=True)]
    assert double == pytest.approx(expected, rel=1e-12)
    assert single == pytest.approx(expected, rel=3e-5, abs=1e-6)


def test_three_numbers_and_questions(found: dict[str, list[list[float]]]) -> None:
    assert found["libdevice.fma(a, b, b)"][1] == pytest.approx(
        [x * y + y for x, y in zip(WIDE, OTHERS, strict=True)]
    )
    assert found["libdevice.isnan(a / 0.0 * 0.0)"] == [[1.0] * 8] * 2


@pytest.mark.parametrize("call", REFUSED)
def test_what_there_is_not_is_said(found: dict[str, list[list[float]]], call: str) -> None:
    assert "not supported in interpreter mode" in str(found[call])
