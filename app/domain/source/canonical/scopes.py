"""EXPORT: names and classes of a module while its graph is made."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from app.domain.source.expression_graph import Term

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(eq=False)
class ClassRecord:
    """A class of the module while it is read."""

    node: ast.ClassDef
    term: Term
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    values: dict[str, Term] = field(default_factory=dict)
    """Assigned in the class's body."""
    slots: dict[str, Term] = field(default_factory=dict)
    """Attributes of `self`."""
    defined: dict[str, Term] = field(default_factory=dict)
    """Methods that have been read."""


@dataclass(eq=False)
class Scope:
    """Names and the terms they stand for."""

    names: dict[str, Term]
    outer: Scope | None = None
    self_name: str | None = None
    owner: ClassRecord | None = None
    constructing: bool = False

    def find(self, name: str) -> Term | None:
        """The term of a name, in this scope or one around it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def method(self) -> Scope | None:
        """The innermost scope that has a `self`."""
        scope: Scope | None = self
        while scope is not None and scope.self_name is None:
            scope = scope.outer
        return scope

    def branch(self) -> Scope:
        """The same scope to go on from, without a way back."""
        return Scope(dict(self.names), self.outer, self.self_name, self.owner, self.constructing)
