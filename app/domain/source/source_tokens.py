"""EXPORT: source text as tokens, for comparing solutions and for n-grams.  Never
fails, on any text.

A regular expression, not `tokenize`: candidates need not be Python that parses, and a hundred
thousand of them are read at a time.  String literals that hold code (CUDA sources live in them) are
read as C, so that two kernels that differ in one line differ in one line and not in one string.
Comments and docstrings are dropped; nothing else is.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

_PREFIX = r"(?:[rRbBuUfF]{1,2})?"
_STRING = (
    rf"{_PREFIX}(?:'{{3}}(?:[^\\]|\\.)*?(?:'{{3}}|\Z)|\"{{3}}(?:[^\\]|\\.)*?(?:\"{{3}}|\Z)"
    r"|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?)"
)
_NAME = r"[^\W\d]\w*"
_NUMBER = r"\.?\d(?:[\w.]|(?<=[eE])[+-])*"
_OPERATOR = r"\*\*=?|//=?|<<=?|>>=?|->|:=|[-+*/%&|^=<>!@]=|."
_KIND = re.compile(
    rf"(?P<string>{_STRING})|(?P<newline>\n)|(?P<name>{_NAME})|(?P<number>{_NUMBER})|(?P<operator>{_OPERATOR})",
    re.DOTALL,
)
_PYTHON = re.compile(
    r"[ \t\r\f]*(?:(?:\\\n|\#[^\n]*)[ \t\r\f]*)*"  # blanks and comments before a token
    rf"({_NAME}(?!['\"\w])|[()\[\],]|{_NUMBER}"
    r"|\n(?:[ \t\r\f]*(?:\#[^\n]*)?\n)*[ \t]*"
    rf"|{_STRING}|{_NAME}|{_OPERATOR}|\Z)",
    re.DOTALL,
)
"""One group, so that `findall` gives texts.  Frequent forms first, if none after
them begins in the same way.
"""
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
SHORT, KNOWN = 40, 100_000
"""Longest token that is remembered, in characters, and most tokens."""

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_KEPT = frozenset(keyword.kwlist) | frozenset(
    dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
)

Token = tuple[str, str]
"""Kind (`name`, `number`, `string`, `operator`, `line`, and with `c_` before them
those of embedded code) and text.
"""


class _Known(dict[str, Token]):
    """Text of a token → kind and text.  Sources share most of theirs, and reading a
    form costs more than a look-up.
    """

    def __missing__(self, text: str) -> Token:
        match = _KIND.match(text)
        assert match is not None  # `.` matches every other character
        kind = match.lastgroup or ""
        if kind == "newline":
            found = (kind, text.rpartition("\n")[2])
        elif kind == "string" and len(text) >= CODE_CHARS and "\n" in text:
            found = ("code", text)
        else:
            found = ("open" if text in _OPEN else "close" if text in _CLOSE else kind, text)
        if len(text) <= SHORT:
            if len(self) >= KNOWN:
                self.clear()
            self[text] = found
        return found


_known = _Known()


def tokens(text: str) -> list[Token]:
    """Python tokens without comments, docstrings and blanks; a `line` token opens each logical line
    and holds its indentation, because indentation is meaning.
    """
    found: list[Token] = []
    depth, code = 0, False
    line: Token | None = ("line", "")
    for token in map(_known.__getitem__, filter(None, _PYTHON.findall(text))):
        kind, value = token
        if kind == "newline":
            if depth == 0:
                _drop_docstring(found)
                line = ("line", value)
            continue
        if line is not None:
            found.append(line)
            line = None
        if kind == "open":
            depth += 1
            token = ("operator", value)
        elif kind == "close":
            depth = max(0, depth - 1)
            token = ("operator", value)
        elif kind == "code":
            code = True
        found.append(token)
    _drop_docstring(found)
    return list(_with_code_read(found)) if code else found


def _with_code_read(found: list[Token]) -> Iterator[Token]:
    """The tokens, with the tokens of embedded code in the place of each literal that holds some."""
    for token in found:
        if token[0] == "code":
            yield from _embedded(token[1])
        else:
            yield token


def normalised(found: list[Token]) -> str:
    """The tokens as one text: the same for sources that differ in blanks, comments
    and docstrings only.
    """
    return "\x1f".join(text for _, text in found)


def renamed(found: list[Token]) -> list[str]:
    """The tokens with every name that the source itself binds replaced by its order of appearance.

    Kept: keywords, built-ins, attributes, names that are only used (modules' functions),
    strings, and **numbers**: a block size is a different kernel.  In embedded code, names that
    are called or qualified are kept.
    """
    bound = _bound(found)
    order: dict[str, str] = {}
    result: list[str] = []
    previous = ""
    for index, (kind, text) in enumerate(found):
        if kind == "name":
            own = text in bound and previous != "."
        elif kind == "c_name" and text not in _C_KEPT and previous not in _C_QUALIFIERS:
            own = index + 1 == len(found) or found[index + 1][1] not in _C_CALLED
        else:
            own = False
        result.append(order.setdefault(text, f"${len(order)}") if own else text)
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
        elif kind == "operator":
            if text in _OPEN:
                depth += 1
            elif text in _CLOSE:
                depth -= 1
                parameters = parameters if depth > parameters else -1
        elif kind != "name" or text in bound:
            continue
        elif text in _KEPT:
            parameters = depth if text == "def" else parameters
            targets = text in ("for", "import") or (targets and text not in ("in", "from"))
        else:
            previous = found[index - 1][1]
            if previous == ".":
                continue
            following = found[index + 1][1] if index + 1 < len(found) else ""
            is_parameter = 0 <= parameters < depth and previous in _BEFORE_PARAMETER
            is_target = targets or following == ":=" or (depth == 0 and following in _AFTER_TARGET)
            if is_target or is_parameter or previous in _DEFINES:
                bound.add(text)
    return bound


_DEFINES = frozenset(("def", "class", "as"))
_BEFORE_PARAMETER = frozenset(("(", ",", "*", "**"))
_AFTER_TARGET = frozenset(("=", ",", ":", "+=", "-=", "*=", "/="))
_C_QUALIFIERS = frozenset((".", "->", "::"))
_C_CALLED = frozenset(("(", "::", "<<<"))
_C_KEPT = frozenset(
    " ".join(
        (
            (
                "alignas auto bool break case char class const constexpr continue default do double"
                " else enum extern"
            ),
            (
                "false float for goto if inline int long namespace nullptr operator private public"
                " return short signed"
            ),
            (
                "sizeof static struct switch template this true typedef typename union unsigned"
                " using void volatile while"
            ),
            (
                "include define pragma unroll ifdef endif half float2 float4 int4 __half __half2"
                " __nv_bfloat16"
            ),
            (
                "size_t int64_t int32_t uint32_t uint64_t __global__ __device__ __host__ __shared__"
                " __restrict__"
            ),
            "__forceinline__ __launch_bounds__ threadIdx blockIdx blockDim gridDim warpSize",
            "x y z torch at std cuda c10",
        )
    ).split(" ")
)
