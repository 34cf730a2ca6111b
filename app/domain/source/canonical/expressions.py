"""EXPORT: terms of expressions and of targets of assignments."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable

from app.domain.source.canonical.scopes import ClassRecord, Function, Scope
from app.domain.source.canonical.syntax import own_attributes
from app.domain.source.expression_graph import Term, Terms

NUMBER = "number"
"""Head of a number with a masked value."""
_LARGEST_FOLDED = 1 << 64

_FOLDED: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}


class Expressions(ABC):
    """Terms of a module's expressions; definitions and statements inside them are
    read by the subclass.
    """

    def __init__(self, tree: ast.Module, *, masked: bool) -> None:
        """`masked`: every number is the same number."""
        self.terms = Terms()
        self._masked = masked
        self._classes: dict[Term, ClassRecord] = {}
        self._functions: dict[Term, Function] = {}
        self._bound: set[Term] = set()
        """Functions with a first parameter that is given by the attribute that calls them."""
        self._own = own_attributes(tree)
        self._own_terms: dict[str, Term] = {}
        self._scope = Scope({})

    @abstractmethod
    def _define(self, node: Function, scope: Scope) -> Term:
        """The term of a function, with its body read later."""

    @abstractmethod
    def _method(self, owner: ClassRecord, name: str, scope: Scope) -> Term:
        """A method, read with `self` in scope."""

    @abstractmethod
    def _statement(self, node: ast.stmt, scope: Scope, effects: list[Term]) -> bool:
        """Read a statement; whether nothing runs after it."""

    def _expression(self, node: ast.expr, scope: Scope) -> Term:
        match node:
            case ast.Constant(value=value):
                return self._constant(value)
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.Call():
                return self._call(node, scope)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, left, right, scope)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                return self._signed(sign, self._expression(operand, scope))
            case ast.Subscript(value=value, slice=ast.Constant(value=int() as index)):
                return self.terms.node(f"item {index}", self._expression(value, scope))
            case ast.Lambda():
                return self._define(node, scope.branch())
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, scope)
            case ast.NamedExpr(target=target, value=value):
                scope.names[target.id] = term = self._expression(value, scope)
                return term
            case _:
                return self._generic(node, scope)

    def _constant(self, value: object) -> Term:
        if isinstance(value, int | float | complex) and not isinstance(value, bool):
            return self.terms.node(NUMBER if self._masked else f"{NUMBER} {value!r}")
        return self.terms.node(f"constant {type(value).__name__} {value!r}")

    def _name(self, name: str, scope: Scope) -> Term:
        found = scope.find(name)
        return self.terms.node(f"global {name}") if found is None else found

    def _path(self, path: str) -> Term:
        return self.terms.node(f"path {path}")

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Term:
        method = scope.method()
        if (
            isinstance(node.value, ast.Name)
            and method is not None
            and node.value.id == method.self_name
        ):
            found = self._own_attribute(node.attr, method)
            if found is not None:
                return found
        base = self._expression(node.value, scope)
        head = self.terms.head(base)
        if head.startswith("path "):
            return self._path(f"{head.removeprefix('path ')}.{node.attr}")
        owner = self._classes.get(base)
        if owner is not None and node.attr in owner.values:
            return owner.values[node.attr]
        if node.attr in self._own:
            return self.terms.node("attribute", base, self._defined_as(node.attr))
        return self.terms.node(f"attribute {node.attr}", base)

    def _own_attribute(self, name: str, scope: Scope) -> Term | None:
        """An attribute of `self` that the class defines."""
        owner = scope.owner
        assert owner is not None
        if scope.constructing and f".{name}" in scope.names:
            return scope.names[f".{name}"]
        if name in owner.slots:
            return owner.slots[name]
        if name in owner.methods:
            return self._method(owner, name, scope.outer or self._scope)
        return owner.values.get(name)

    def _defined_as(self, name: str) -> Term:
        """An attribute that some class of the module defines, by its definitions."""
        if name not in self._own_terms:
            term = self._own_terms[name] = self.terms.open("own")
            found: list[Term] = []
            for owner in list(self._classes.values()):
                if name in owner.slots:
                    found.append(owner.slots[name])
                elif name in owner.methods:
                    found.append(self._method(owner, name, self._scope))
                elif name in owner.values:
                    found.append(owner.values[name])
            self.terms.close(term, found)
        return self._own_terms[name]

    def _call(self, node: ast.Call, scope: Scope) -> Term:
        function = self._expression(node.func, scope)
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and scope.find("super") is None
        ):
            return self.terms.node("super")
        arguments = [self._expression(each, scope) for each in node.args]
        names = self._parameter_names(function)
        keywords = []
        for keyword in node.keywords:
            name = keyword.arg or "**"
            place = f"place {names[name]}" if name in names else f"keyword {name}"
            keywords.append((place, self._expression(keyword.value, scope)))
        if names and not any(isinstance(each, ast.Starred) for each in node.args):
            placed = [(f"place {place}", argument) for place, argument in enumerate(arguments)]
            arguments, keywords = [], placed + keywords
        named = [self.terms.node(name, value) for name, value in sorted(keywords)]
        return self.terms.node("call", function, *arguments, *named)

    def _parameter_names(self, function: Term) -> dict[str, int]:
        """Parameters of a function or class of this module: name → place; empty for any other."""
        owner = self._classes.get(function)
        node: Function | None = self._functions.get(function)
        skipped = int(owner is not None or function in self._bound)
        if owner is not None:
            node = owner.methods.get("__init__")
        if node is None:
            return {}
        taken = [*node.args.posonlyargs, *node.args.args][skipped:] + node.args.kwonlyargs
        return {one.arg: place for place, one in enumerate(taken)}

    def _binary(self, op: ast.operator, left: ast.expr, right: ast.expr, scope: Scope) -> Term:
        one, other = self._expression(left, scope), self._expression(right, scope)
        heads = self.terms.head(one), self.terms.head(other)
        if all(head.split(" ")[0] == NUMBER for head in heads):
            if self._masked:
                return one
            folded = _folded(op, *(head.removeprefix(f"{NUMBER} ") for head in heads))
            if folded is not None:
                return self.terms.node(f"{NUMBER} {folded!r}")
        return self.terms.node(type(op).__name__, one, other)

    def _signed(self, sign: ast.unaryop, operand: Term) -> Term:
        head = self.terms.head(operand)
        if head == NUMBER or (isinstance(sign, ast.UAdd) and head.startswith(NUMBER)):
            return operand
        if head.startswith(f"{NUMBER} "):
            value = head.removeprefix(f"{NUMBER} ")
            return self.terms.node(
                f"{NUMBER} {value[1:] if value.startswith('-') else '-' + value}"
            )
        return self.terms.node(type(sign).__name__, operand)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> Term:
        inner = scope.branch()
        parts: list[Term] = []
        for each in node.generators:
            iterated = self._expression(each.iter, inner)
            parts.append(iterated)
            self._bind(each.target, self.terms.node("each", iterated), inner, parts)
            parts += [self.terms.node("test", self._expression(test, inner)) for test in each.ifs]
        shown = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return self.terms.node(
            type(node).__name__, *parts, *[self._expression(each, inner) for each in shown]
        )

    def _generic(self, node: ast.AST, scope: Scope) -> Term:
        """Any other syntax: its kind and its parts."""
        head, children = [type(node).__name__], list[Term]()
        for name, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.expr):
                    children.append(self._expression(each, scope))
                elif isinstance(each, ast.stmt):
                    self._statement(each, scope, children)
                elif isinstance(each, ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
                    head.append(type(each).__name__)
                elif isinstance(each, ast.expr_context):
                    continue
                elif isinstance(each, ast.AST):
                    children.append(self._generic(each, scope))
                elif each is not None and name not in ("type_comment", "kind"):
                    head.append(repr(each))
                else:
                    head.append("-")
        return self.terms.node(" ".join(head), *children)

    def _bind(self, target: ast.expr, value: Term, scope: Scope, effects: list[Term]) -> None:
        match target:
            case ast.Name(id=name):
                scope.names[name] = value
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                parts = (
                    self.terms.children(value)
                    if self.terms.head(value) in ("Tuple", "List")
                    else ()
                )
                for place, element in enumerate(elements):
                    part = (
                        parts[place]
                        if len(parts) == len(elements)
                        else self.terms.node(f"part {place}", value)
                    )
                    self._bind(element, part, scope, effects)
            case ast.Starred(value=inner):
                self._bind(inner, self.terms.node("rest", value), scope, effects)
            case ast.Attribute(value=ast.Name(id=base), attr=name) if base == scope.self_name:
                if scope.constructing:
                    scope.names[f".{name}"] = value
                else:
                    effects.append(self.terms.node("set", self._attribute(target, scope), value))
            case _:
                effects.append(self.terms.node("set", self._expression(target, scope), value))


def _folded(op: ast.operator, one: str, other: str) -> float | None:
    """The number that two numbers make; None where it cannot or need not be known."""
    function = _FOLDED.get(type(op))
    if function is None:
        return None
    try:
        found = function(ast.literal_eval(one), ast.literal_eval(other))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return found if isinstance(found, int | float) and abs(found) < _LARGEST_FOLDED else None
