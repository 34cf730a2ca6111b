"""BROWSE: completion of a filter that is being written: fields, operators, values,
`and`, `or` and `not`.

Pure: values of fields that hold any text come from the caller (`Completion.values_of`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from app.domain.filter_fields import FIELDS, OPERATORS, FieldType
from app.domain.filter_tokens import Token, WhereError, literal, tokens


@dataclass(frozen=True, kw_only=True)
class Option:
    """Text that may stand at the place."""

    text: str
    doc: str


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Texts that may stand at a place."""

    start: int
    """Position, from 0, of the part that an option replaces; it ends at the cursor."""
    prefix: str
    """The part so far, without quotes."""
    options: tuple[Option, ...]
    """Texts that contain `prefix`, first the texts that begin with it."""
    values_of: str | None
    """Field with values that the caller knows; None where `options` are all."""


class _Next(Enum):
    FIELD = auto()
    OPERATOR = auto()
    VALUE = auto()
    OPEN = auto()
    """`(` after `in`."""
    LISTED = auto()
    """A value in a list."""
    MORE = auto()
    """`,` or `)` in a list."""
    AND = auto()


_MEANING = {
    "=": "is",
    "!=": "is not",
    "<": "less than",
    "<=": "at most",
    ">": "more than",
    ">=": "at least",
    "~": "contains",
    "in": "is one of",
}
_WORDS = (Option(text="and", doc="both hold"), Option(text="or", doc="either holds"))
_NOT = Option(text="not", doc="the next one does not hold")
_NULL = Option(text="null", doc="no value")


def complete(text: str, at: int) -> Completion:
    """Texts that may stand where the cursor is, `at` characters into the text; none
    where the text before is wrong.
    """
    before = text[:at]
    parted = _parted(before)
    if parted is None:
        return Completion(start=len(before), prefix="", options=(), values_of=None)
    start, prefix, known = parted
    expected, field = _state(known)
    options = _options(expected, field)
    has_text = (
        expected in (_Next.VALUE, _Next.LISTED) and field and FIELDS[field].kind is FieldType.TEXT
    )
    wanted = prefix.lower()
    fitting = sorted(
        (
            option
            for option in options
            if wanted in option.text.lower() and option.text != before[start:]
        ),
        key=lambda option: not option.text.lower().startswith(wanted),
    )
    return Completion(
        start=start, prefix=prefix, options=tuple(fitting), values_of=field if has_text else None
    )


def spelt(value: str) -> str:
    """A value of text as a filter spells it."""
    return literal(value)


def _parted(before: str) -> tuple[int, str, list[Token]] | None:
    """Start and text of the part at the cursor, and the tokens before it.  An open
    quote is such a part.  None where quotes hold a character that no filter may hold.
    """
    try:
        known = [token for token in tokens(before) if token.kind != "end"]
    except WhereError as error:
        start = error.position - 1
        try:
            known = [token for token in tokens(before[:start]) if token.kind != "end"]
        except WhereError:
            return None
        return start, before[start + 1 :], known
    last = known[-1] if known else None
    if last is not None and last.kind == "word" and not before[-1].isspace():
        return last.position - 1, last.text, known[:-1]
    return len(before), "", known


def _state(known: list[Token]) -> tuple[_Next | None, str | None]:
    """The expected kind of token behind these, and the field that a value is for."""
    expected: _Next | None = _Next.FIELD
    field: str | None = None
    for token in known:
        expected, field = _after(expected, field, token)
        if expected is None:
            break
    return expected, field


def _after(
    expected: _Next | None, field: str | None, token: Token
) -> tuple[_Next | None, str | None]:
    text = "" if token.kind == "string" else token.text.lower()  # quoted: never a keyword or mark
    match expected:
        case _Next.FIELD if text in ("not", "("):
            return _Next.FIELD, None
        case _Next.FIELD if text and token.text in FIELDS:
            return _Next.OPERATOR, token.text
        case _Next.OPERATOR if field and text in OPERATORS[FIELDS[field].kind]:
            return (_Next.OPEN if text == "in" else _Next.VALUE), field
        case _Next.VALUE if token.kind in ("word", "string"):
            return _Next.AND, None
        case _Next.OPEN if text == "(":
            return _Next.LISTED, field
        case _Next.LISTED if token.kind in ("word", "string"):
            return _Next.MORE, field
        case _Next.MORE if text == ",":
            return _Next.LISTED, field
        case _Next.MORE if text == ")":
            return _Next.AND, None
        case _Next.AND:
            return _behind(text)
        case _Next.OPERATOR if field and FIELDS[field].kind is FieldType.BOOLEAN:
            return _behind(text)
    return None, None


def _behind(text: str) -> tuple[_Next | None, str | None]:
    """The expected kind of token after a word or mark that follows a whole comparison."""
    return {"and": _Next.FIELD, "or": _Next.FIELD, ")": _Next.AND}.get(text), None


def _options(expected: _Next | None, field: str | None) -> list[Option]:
    match expected:
        case _Next.FIELD:
            return [*(Option(text=name, doc=each.doc) for name, each in FIELDS.items()), _NOT]
        case _Next.OPERATOR if field:
            kind = FIELDS[field].kind
            return [
                *(_WORDS if kind is FieldType.BOOLEAN else ()),
                *(Option(text=each, doc=_MEANING[each]) for each in OPERATORS[kind]),
            ]
        case _Next.OPEN:
            return [Option(text="(", doc="the values follow, with commas between")]
        case _Next.VALUE | _Next.LISTED if field:
            return _values(field, null=expected is _Next.VALUE)
        case _Next.MORE:
            return [
                Option(text=",", doc="another value"),
                Option(text=")", doc="end of the values"),
            ]
        case _Next.AND:
            return list(_WORDS)
    return []


def _values(field: str, *, null: bool) -> list[Option]:
    known = FIELDS[field]
    choices = ("true", "false") if known.kind is FieldType.BOOLEAN else known.choices
    return [*(Option(text=choice, doc="") for choice in choices), *([_NULL] if null else [])]
