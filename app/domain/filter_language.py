"""EXPORT, BROWSE: the filter language of `assay export --where` and of the web UI.

    correct and verdict=clean and speedup_ci_low > 1.1 and not (problem ~ softmax or
    backend in (torch, cuda))

A filter is comparisons joined by `and`, `or`, `not` and parentheses.  A comparison is a field,
one of `=  !=  <  <=  >  >=  ~  in (a, b)`, and a value; `~` is "contains", in upper or lower case;
a boolean field may stand alone.  Text with spaces or one of `()=!<>~,"'` is quoted, with `\\`
before a quote or a backslash in it.
`null` means that there is no value: `speedup = null`.

Absent values: a comparison with something absent is false, and only `!=` and `not` turn that round,
so that `not (speedup > 1)` holds for rows that have no speedup.  There is no third truth value.

Parsing is pure.  `app.store.filter.filter_sql` turns the tree into SQL with bound parameters.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

from app.domain.filter_fields import FIELDS, OPERATORS, Field, FieldType, Value
from app.domain.filter_tokens import KEYWORDS, MAX_LENGTH, Token, WhereError, literal, tokens

MAX_DEPTH = 40
"""Nested parentheses and `not`s: far from Python's recursion limit and PostgreSQL's stack depth."""
MAX_INTEGER = 2**31 - 1
"""Largest value of PostgreSQL's integer columns."""


@dataclass(frozen=True, kw_only=True)
class Everything:
    """The empty filter.  Stands alone only."""


@dataclass(frozen=True, kw_only=True)
class Compare:
    """`field operator value`; a boolean field that stands alone is `= true`."""

    field: str
    operator: str
    value: Value
    """Value of the field's kind; None (`null`) only with `=` and `!=`."""


@dataclass(frozen=True, kw_only=True)
class OneOf:
    """`field in (a, b)`."""

    field: str
    values: tuple[Value, ...]
    """At least one, none of them None."""


@dataclass(frozen=True, kw_only=True)
class Not:
    """`not operand`."""

    operand: Expression


@dataclass(frozen=True, kw_only=True)
class And:
    """All of at least two."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Or:
    """Any of at least two."""

    operands: tuple[Expression, ...]


Expression: TypeAlias = Everything | Compare | OneOf | Not | And | Or


def parse(text: str) -> Expression:
    """The tree of a filter; blank text is `Everything`.  Raises WhereError and nothing else."""
    if len(text) > MAX_LENGTH:
        raise WhereError(MAX_LENGTH + 1, f"at most {MAX_LENGTH} characters", f"{len(text)}")
    parser = _Parser(list(tokens(text)))
    if parser.peek().kind == "end":
        return Everything()
    expression = parser.any_of(0)
    if parser.peek().kind != "end":
        raise parser.error("'and', 'or' or the end")
    return expression


def unparse(expression: Expression) -> str:
    """Text that parses to the same tree."""
    match expression:
        case Everything():
            return ""
        case Compare(field=field, operator="=", value=True):
            return field
        case Compare(field=field, operator=operator, value=value):
            return f"{field} {operator} {literal(value)}"
        case OneOf(field=field, values=values):
            return f"{field} in ({', '.join(literal(value) for value in values)})"
        case Not(operand=operand):
            return f"not {_nested(operand, (And, Or))}"
        case And(operands=operands):
            return " and ".join(_nested(operand, (And, Or)) for operand in operands)
        case Or(operands=operands):
            return " or ".join(_nested(operand, (Or,)) for operand in operands)


def without(expression: Expression, fields: Collection[str]) -> Expression:
    """The filter without its comparisons of these fields: the condition on rows that
    have none of them.
    """
    found = _without(expression, fields)
    return Everything() if found is None else found


def _without(expression: Expression, fields: Collection[str]) -> Expression | None:
    match expression:
        case And(operands=operands) | Or(operands=operands):
            kept = [
                one
                for one in (_without(operand, fields) for operand in operands)
                if one is not None
            ]
            return (
                None
                if not kept
                else kept[0]
                if len(kept) == 1
                else type(expression)(operands=tuple(kept))
            )
        case Not(operand=operand):
            inner = _without(operand, fields)
            return None if inner is None else Not(operand=inner)
        case Compare(field=field) | OneOf(field=field):
            return None if field in fields else expression
    return expression


def names(expression: Expression) -> frozenset[str]:
    """Every field that the filter mentions."""
    match expression:
        case Everything():
            return frozenset()
        case Compare(field=field) | OneOf(field=field):
            return frozenset({field})
        case Not(operand=operand):
            return names(operand)
        case And(operands=operands) | Or(operands=operands):
            return frozenset().union(*(names(operand) for operand in operands))


def _nested(expression: Expression, in_parentheses: tuple[type[Expression], ...]) -> str:
    text = unparse(expression)
    return f"({text})" if isinstance(expression, in_parentheses) else text


class _Parser:
    """Recursive descent: any_of → all_of → one → comparison."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.index = 0

    def peek(self) -> Token:
        return self.tokens[self.index]

    def take(self) -> Token:
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def taken(self, kind: str, text: str) -> bool:
        """Take the next token if it is that one; False where it is another."""
        token = self.peek()
        found = token.kind == kind and token.text.lower() == text
        if found:
            self.take()
        return found

    def error(self, expected: str, *, hint: str = "") -> WhereError:
        token = self.peek()
        return WhereError(token.position, expected, str(token), hint)

    def any_of(self, depth: int) -> Expression:
        operands = [self.all_of(depth)]
        while self.taken("word", "or"):
            operands.append(self.all_of(depth))
        return operands[0] if len(operands) == 1 else Or(operands=tuple(operands))

    def all_of(self, depth: int) -> Expression:
        operands = [self.one(depth)]
        while self.taken("word", "and"):
            operands.append(self.one(depth))
        return operands[0] if len(operands) == 1 else And(operands=tuple(operands))

    def one(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise self.error(f"at most {MAX_DEPTH} nested parentheses and 'not's")
        if self.taken("word", "not"):
            return Not(operand=self.one(depth + 1))
        if self.taken("mark", "("):
            inner = self.any_of(depth + 1)
            if not self.taken("mark", ")"):
                raise self.error("'and', 'or' or ')'")
            return inner
        return self.comparison()

    def comparison(self) -> Expression:
        name = self.field()
        kind = FIELDS[name].kind
        token = self.peek()
        operator = token.text.lower()
        if token.kind == "operator" or (token.kind == "word" and operator == "in"):
            if operator not in OPERATORS[kind]:
                raise self.error(
                    f"one of {' '.join(OPERATORS[kind])} after {name}, which is a {kind}"
                )
            self.take()
            if operator == "in":
                return OneOf(field=name, values=self.values(name))
            return Compare(
                field=name, operator=operator, value=self.value(name, null=operator in ("=", "!="))
            )
        if kind is FieldType.BOOLEAN:
            return Compare(field=name, operator="=", value=True)
        raise self.error(f"one of {' '.join(OPERATORS[kind])} after {name}, which is a {kind}")

    def field(self) -> str:
        token = self.peek()
        if token.kind != "word" or token.text.lower() in KEYWORDS:
            raise self.error("a field, 'not' or '('")
        if token.text not in FIELDS:
            hint = (
                _of_choice(token.text)
                or _nearest(token.text, tuple(FIELDS))
                or f" (fields: {', '.join(FIELDS)})"
            )
            raise self.error("a field", hint=hint)
        return self.take().text

    def values(self, name: str) -> tuple[Value, ...]:
        if not self.taken("mark", "("):
            raise self.error("'(' after in")
        found = [self.value(name, null=False)]
        while self.taken("mark", ","):
            found.append(self.value(name, null=False))
        if not self.taken("mark", ")"):
            raise self.error("',' or ')'")
        return tuple(found)

    def value(self, name: str, *, null: bool) -> Value:
        token = self.peek()
        field = FIELDS[name]
        if token.kind not in ("word", "string"):
            raise self.error(f"a {field.kind} for {name}")
        if token.kind == "word" and token.text.lower() in KEYWORDS:
            if token.text.lower() == "null" and null:
                self.take()
                return None
            raise self.error(f"a {field.kind} for {name} (in quotes if it is text)")
        try:
            value = _convert(token.text, field)
        except ValueError as error:
            raise self.error(str(error), hint=_nearest(token.text, field.choices)) from None
        self.take()
        return value


_SHORT_ID = re.compile(r"[0-9a-f]{8}")
"""The last digits of an id, as pages show them."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def _convert(text: str, field: Field) -> Value:
    """The typed value; a ValueError's message is the expected form."""
    match field.kind:
        case FieldType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError("true or false")
            return text.lower() == "true"
        case FieldType.INTEGER:
            if not _INTEGER.fullmatch(text) or abs(int(text)) > MAX_INTEGER:
                raise ValueError(f"an integer of at most {MAX_INTEGER}")
            return int(text)
        case FieldType.NUMBER:
            if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
                raise ValueError("a finite number")
            return float(text)
        case FieldType.CHOICE:
            if text not in field.choices:
                raise ValueError(f"one of {', '.join(field.choices)}")
            return text
        case FieldType.TIME:
            return _time(text)
        case FieldType.ID:
            try:
                return UUID(text)
            except ValueError:
                hint = (
                    " in full (the search finds it by these 8 digits)"
                    if _SHORT_ID.fullmatch(text)
                    else ""
                )
                raise ValueError(f"a UUID{hint}") from None
        case FieldType.TEXT:
            return text


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a date or time such as 2026-11-21 or 2026-11-21T08:00+01:00") from None
    if not 1900 < moment.year < 9000:  # room for any offset
        raise ValueError("a year between 1901 and 8999")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _nearest(text: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(text.lower(), known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _of_choice(text: str) -> str:
    """A hint where the text is a value of some field."""
    fields = [name for name, field in FIELDS.items() if text.lower() in field.choices]
    return f"; did you mean {fields[0]} = {text.lower()}?" if fields else ""
