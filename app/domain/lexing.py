"""EXPORT: source text as tokens, for comparing solutions and for n-grams.  Never fails, on any text.

A regular expression, not `tokenize`: candidates need not be Python that parses, and a hundred thousand of them are
read at a time.  String literals that hold code (CUDA sources live in them) are read as C, so that two kernels that
differ in one line differ in one line and not in one string.  Comments and docstrings are dropped; nothing else is."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

_PREFIX = r"(?:[rRbBuUfF]{1,2})?"
_PYTHON = re.compile(
    rf"(?P<string>{_PREFIX}(?:'''(?:[^\\]|\\.)*?(?:'''|\Z)|\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)"
    r"|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?))"
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<newline>\n[ \t]*)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<number>\.?\d(?:[\w.]|(?<=[eE])[+-])*)"
    r"|(?P<blank>[ \t\r\f]+|\\\n)"
    r"|(?P<operator>\*\*=?|//=?|<<=?|>>=?|->|:=|[-+*/%&|^=<>!@]=|.)",
    re.DOTALL,
)
_C = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\.?\d(?:[\w.]|(?<=[eE])[+-])*)"
    r"|(?P<blank>\s+)"
    r"|(?P<operator><<<|>>>|<<=|>>=|->|::|\+\+|--|&&|\|\||[-+*/%&|^=<>!]=|<<|>>|.)",
    re.DOTALL,
)
CODE_CHARS = 80
"""A string literal at least this long that has a line break is read as code."""

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_KEPT = frozenset(keyword.kwlist) | frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)

Token = tuple[str, str]
"""Kind (`name`, `number`, `string`, `operator`, `line`, and with `c_` before them those of embedded code) and text."""


def tokens(text: str) -> list[Token]:
    """Python tokens without comments, docstrings and blanks; a `line` token opens each logical line and holds its
    indentation, because indentation is meaning."""
    found: list[Token] = []
    depth = 0
    line: Token | None = ("line", "")
    for match in _PYTHON.finditer(text):
        kind, value = match.lastgroup or "", match.group()
        if kind in ("blank", "comment"):
            continue
        if kind == "newline":
            if depth == 0:
                _drop_docstring(found)
                line = ("line", value[1:])
            continue
        if line is not None:
            found.append(line)
            line = None
        if value in _OPEN:
            depth += 1
        elif value in _CLOSE:
            depth = max(0, depth - 1)
        if kind == "string" and len(value) >= CODE_CHARS and "\n" in value:
            found.append(("code", value))
        else:
            found.append((kind, value))
    _drop_docstring(found)
    return [token for each in found for token in (_embedded(each[1]) if each[0] == "code" else (each,))]


def normalised(found: list[Token]) -> str:
    """The tokens as one text: the same for sources that differ in blanks, comments and docstrings only."""
    return "\x1f".join(text for _, text in found)


def renamed(found: list[Token]) -> list[str]:
    """The tokens with every name that the source itself binds replaced by its order of appearance.

    Kept: keywords, built-ins, attributes, names that are only used (modules' functions), strings, and **numbers**: a
    block size is a different kernel.  In embedded code, names that are called or qualified are kept."""
    bound = _bound(found)
    order: dict[str, str] = {}
    result: list[str] = []
    previous = ""
    for index, (kind, text) in enumerate(found):
        if kind == "name" and text in bound and previous != ".":
            result.append(order.setdefault(text, f"${len(order)}"))
        elif kind == "c_name" and text not in _C_KEPT and previous not in (".", "->", "::"):
            following = found[index + 1][1] if index + 1 < len(found) else ""
            result.append(text if following in ("(", "::", "<<<") else order.setdefault(text, f"${len(order)}"))
        else:
            result.append(text)
        previous = text
    return result


def words(text: str) -> list[str]:
    """Tokens for n-grams: names, numbers and operators, layout aside."""
    return [value for kind, value in tokens(text) if kind != "line"]


def _drop_docstring(found: list[Token]) -> None:
    """A logical line that is a string and nothing else says nothing to the interpreter."""
    if len(found) >= 2 and found[-1][0] in ("string", "code") and found[-2][0] == "line":
        del found[-2:]


def _embedded(literal: str) -> Iterator[Token]:
    body = literal.lstrip("rRbBuUfF")
    quotes = 3 if body[:3] in ("'''", '"""') else 1
    yield "operator", body[:quotes]
    for match in _C.finditer(body[quotes:].removesuffix(body[:quotes])):
        kind = match.lastgroup or ""
        if kind not in ("blank", "comment"):
            yield f"c_{kind}", match.group()
    yield "operator", body[:quotes]


def _bound(found: list[Token]) -> set[str]:
    """Names that the source assigns, defines, imports or takes as parameters."""
    bound: set[str] = set()
    depth, parameters, targets = 0, -1, False
    for index, (kind, text) in enumerate(found):
        if kind == "line":
            targets = False
        elif text in _OPEN:
            depth += 1
        elif text in _CLOSE:
            depth -= 1
            if depth <= parameters:
                parameters = -1
        elif text in ("def", "lambda"):
            parameters = depth if text == "def" else parameters
        elif text in ("for", "import"):
            targets = True
        elif text in ("in", "from"):
            targets = False
        elif kind == "name" and text not in _KEPT:
            previous = found[index - 1][1] if index else ""
            following = found[index + 1][1] if index + 1 < len(found) else ""
            if (
                previous in ("def", "class", "as")
                or (targets and previous != ".")
                or (depth == 0 and following in ("=", ",", ":", "+=", "-=", "*=", "/=") and previous != ".")
                or following == ":="
                or (0 <= parameters < depth and previous in ("(", ",", "*", "**"))
            ):
                bound.add(text)
    return bound


_C_KEPT = frozenset(
    " ".join(
        (
            "alignas auto bool break case char class const constexpr continue default do double else enum extern",
            "false float for goto if inline int long namespace nullptr operator private public return short signed",
            "sizeof static struct switch template this true typedef typename union unsigned using void volatile while",
            "include define pragma unroll ifdef endif half float2 float4 int4 __half __half2 __nv_bfloat16",
            "size_t int64_t int32_t uint32_t uint64_t __global__ __device__ __host__ __shared__ __restrict__",
            "__forceinline__ __launch_bounds__ threadIdx blockIdx blockDim gridDim warpSize",
            "x y z torch at std cuda c10",
        )
    ).split(" ")
)
