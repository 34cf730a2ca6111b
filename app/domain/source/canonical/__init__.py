"""EXPORT: the computation that a module describes, as a graph: its part that
survives a rewrite of the text.

A local name is replaced by the expression that it stands for, an attribute of `self` by a slot with
the expression that `__init__` gave it, an alias of an import by its dotted path, a call of
`super().__init__()` by nothing.  So names, annotations, docstrings, formatting, temporaries, and
the order of statements that do not depend on each other have no place in the graph.  Statements
that act (a call for its effect, an assignment into a tensor, `raise`, a loop) keep their order.
Keywords of library calls, strings and attributes of libraries are kept; so is a number that picks
an item (the hidden state of an LSTM is not its cell state); other numbers on request.

Not recognised: the same computation through another function of the library (`torch.relu`,
`nn.ReLU`); that is the task of the semantic key (`app.domain.dataset.problem_family`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from app.domain.source import syntax_tree
from app.domain.source.canonical.expressions import Expressions
from app.domain.source.canonical.scopes import ClassRecord, Function, Scope
from app.domain.source.canonical.syntax import (
    imported,
    is_base_constructor,
    is_dunder,
    is_main,
    stored,
    stored_on_self,
)
from app.domain.source.expression_graph import Term


class Module(Expressions):
    """A module as a graph.  RecursionError for expressions nested deeper than
    Python's own stack.
    """

    def __init__(self, tree: ast.Module, *, masked: bool) -> None:
        """`masked`: every number is the same number."""
        super().__init__(tree, masked=masked)
        self._waiting: list[Callable[[], None]] = []
        """Bodies that are read when all names of the module are known."""
        self._effects: list[Term] = []
        self._block([node for node in tree.body if not is_main(node)], self._scope, self._effects)

    def defines(self, name: str) -> bool:
        """True if the module binds the name."""
        return name in self._scope.names

    def digest(self, names: Sequence[str], *, effects: bool = False) -> str | None:
        """Digest of these module-level names, with `effects` also of the effects of importing the
        module; None where the first is not defined.
        """
        if not self.defines(names[0]):
            return None
        missing = self.terms.node("missing")
        roots = [self._scope.names.get(name, missing) for name in names]
        self._read_all()
        return self.terms.digest(roots + (self._effects if effects else []))

    # --- definitions ---

    def _read_all(self) -> None:
        """Read the bodies of functions until none is left: reading one may define others."""
        while self._waiting:
            self._waiting.pop()()

    def _define(self, node: Function, scope: Scope) -> Term:
        term = self.terms.open("function")
        self._functions[term] = node
        self._waiting.append(lambda: self._read_function(term, node, scope))
        return term

    def _read_function(self, term: Term, node: Function, home: Scope) -> None:
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        inner = Scope({}, home)
        children = [self._expression(each, home) for each in decorators]
        self._bind_parameters(node.args, inner, home)
        self.terms.close(term, [*children, self._body(node, inner)])

    def _body(self, node: Function, inner: Scope) -> Term:
        if isinstance(node, ast.Lambda):
            return self.terms.node(
                "block", self.terms.node("return", self._expression(node.body, inner))
            )
        effects: list[Term] = []
        self._block(node.body, inner, effects)
        return self.terms.node("block", *effects)

    def _bind_parameters(self, taken: ast.arguments, inner: Scope, home: Scope) -> None:
        positional = [*taken.posonlyargs, *taken.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(taken.defaults))
        defaults += [*taken.defaults, *[None] * (taken.vararg is not None), *taken.kw_defaults]
        every = [*positional, *([taken.vararg] if taken.vararg else []), *taken.kwonlyargs]
        for place, (one, default) in enumerate(zip(every, defaults, strict=True)):
            if one.arg in inner.names:
                continue
            term = inner.names[one.arg] = self.terms.open(f"parameter {place}")
            if default is not None:
                self.terms.close(term, [self._expression(default, home)])
        if taken.kwarg is not None:
            inner.names[taken.kwarg.arg] = self.terms.open("keywords")

    def _define_class(self, node: ast.ClassDef, scope: Scope) -> Term:
        owner = ClassRecord(node=node, term=self.terms.open("class"))
        self._classes[owner.term] = owner
        scope.names[node.name] = owner.term
        inner, effects = Scope({}, scope), list[Term]()
        rest: list[ast.stmt] = []
        for each in node.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                owner.methods[each.name] = each
            else:
                rest.append(each)
        self._block(rest, inner, effects)
        owner.values = inner.names
        owner.slots = {
            name: self.terms.open("slot") for name in stored_on_self(node) - owner.methods.keys()
        }
        bases = [self._expression(base, scope) for base in node.bases]
        self._waiting.append(
            lambda: self._read_class(owner, scope, [*bases, *effects, *owner.values.values()])
        )
        return owner.term

    def _read_class(self, owner: ClassRecord, scope: Scope, children: list[Term]) -> None:
        if "__init__" in owner.methods:
            children += self._construct(owner, scope)
        for name in sorted(owner.methods):
            if name in ("forward", "backward") or (is_dunder(name) and name != "__init__"):
                children.append(self.terms.node(f"method {name}", self._method(owner, name, scope)))
        self.terms.close(owner.term, children)

    def _construct(self, owner: ClassRecord, scope: Scope) -> list[Term]:
        """Effects of `__init__` beside filling slots; the slots get the terms it puts into them."""
        node = owner.methods["__init__"]
        inner = self._method_scope(owner, node, scope, constructing=True)
        effects: list[Term] = []
        self._block(node.body, inner, effects)
        for name, slot in owner.slots.items():
            value = inner.names.get(f".{name}")
            if value is not None:
                self.terms.close(slot, [value])
        return [self.terms.node("construction", *effects)] if effects else []

    def _method_scope(
        self,
        owner: ClassRecord,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        scope: Scope,
        *,
        constructing: bool = False,
    ) -> Scope:
        inner = Scope({}, scope, owner=owner, constructing=constructing)
        taken = [*node.args.posonlyargs, *node.args.args]
        is_static = any(
            isinstance(each, ast.Name) and each.id == "staticmethod" for each in node.decorator_list
        )
        if taken and not is_static:
            inner.self_name = taken[0].arg
            inner.names[taken[0].arg] = self.terms.node("self")
        self._bind_parameters(node.args, inner, scope)
        return inner

    def _method(self, owner: ClassRecord, name: str, scope: Scope) -> Term:
        """A method, read with `self` in scope."""
        if name in owner.defined:
            return owner.defined[name]
        node = owner.methods[name]
        term = owner.defined[name] = self.terms.open("function")
        self._functions[term] = node
        decorators = [self._expression(each, scope) for each in node.decorator_list]
        inner, effects = self._method_scope(owner, node, scope), list[Term]()
        if inner.self_name is not None:
            self._bound.add(term)
        self._block(node.body, inner, effects)
        self.terms.close(term, [*decorators, self.terms.node("block", *effects)])
        return term

    # --- statements ---

    def _block(self, body: Iterable[ast.stmt], scope: Scope, effects: list[Term]) -> bool:
        """Read statements; whether they end in a return or a raise, after which nothing runs."""
        return any(self._statement(node, scope, effects) for node in body)

    def _statement(self, node: ast.stmt, scope: Scope, effects: list[Term]) -> bool:
        match node:
            case ast.Assign(targets=targets, value=value):
                term = self._expression(value, scope)
                for target in targets:
                    self._bind(target, term, scope, effects)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._expression(value, scope), scope, effects)
            case ast.AugAssign(target=target, op=op, value=value):
                loaded = syntax_tree.parse_expression(ast.unparse(target))
                self._bind(target, self._binary(op, loaded, value, scope), scope, effects)
            case ast.Return(value=value):
                children = [] if value is None else [self._expression(value, scope)]
                effects.append(self.terms.node("return", *children))
                return True
            case ast.Raise():
                effects.append(self._generic(node, scope))
                return True
            case ast.Expr(value=value):
                if not isinstance(value, ast.Constant) and not is_base_constructor(value):
                    effects.append(self.terms.node("do", self._expression(value, scope)))
            case ast.If(test=test, body=body, orelse=orelse):
                return self._if(self._expression(test, scope), body, orelse, scope, effects)
            case (
                ast.For(target=target, iter=iterated, body=body, orelse=orelse)
                | ast.AsyncFor(target=target, iter=iterated, body=body, orelse=orelse)
            ):
                self._loop(
                    self._expression(iterated, scope),
                    target,
                    None,
                    [*body, *orelse],
                    scope,
                    effects,
                )
            case ast.While(test=test, body=body, orelse=orelse):
                self._loop(self.terms.node("while"), None, test, [*body, *orelse], scope, effects)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                return self._with(items, body, scope, effects)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.names[node.name] = self._define(node, scope)
            case ast.ClassDef():
                self._define_class(node, scope)
            case ast.Import() | ast.ImportFrom():
                scope.names.update((name, self._path(path)) for name, path in imported(node))
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                parts = [body, *(handler.body for handler in handlers), orelse, final]
                effects.append(
                    self.terms.node("try", *[self._inner(part, scope) for part in parts])
                )
            case ast.Pass() | ast.Global() | ast.Nonlocal() | ast.AnnAssign():
                pass
            case _:
                effects.append(self._generic(node, scope))
        return False

    def _inner(self, body: Sequence[ast.stmt], scope: Scope) -> Term:
        effects: list[Term] = []
        self._block(body, scope, effects)
        return self.terms.node("block", *effects)

    def _if(
        self,
        test: Term,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        scope: Scope,
        effects: list[Term],
    ) -> bool:
        """A name that either side binds becomes a choice between the terms of the two sides."""
        sides = scope.branch(), scope.branch()
        done: tuple[list[Term], list[Term]] = [], []
        ended = [
            self._block(part, side, own)
            for part, side, own in zip((body, orelse), sides, done, strict=True)
        ]
        if done[0] or done[1]:
            effects.append(
                self.terms.node("if", test, *[self.terms.node("block", *own) for own in done])
            )
        unbound = self.terms.node("unbound")
        for name in {**sides[0].names, **sides[1].names}:  # in one order for every process
            one, other = (side.names.get(name, unbound) for side in sides)
            if ended[0] or ended[1]:
                one = other if ended[0] else one
                other = one
            scope.names[name] = one if one == other else self.terms.node("choice", test, one, other)
        return all(ended)

    def _loop(
        self,
        iterated: Term,
        target: ast.expr | None,
        test: ast.expr | None,
        body: Sequence[ast.stmt],
        scope: Scope,
        effects: list[Term],
    ) -> None:
        """A name that the body binds is a variable with two values: before the loop,
        and at the end of each round.
        """
        before = {name: scope.names[name] for name in stored(body) if name in scope.names}
        variables = {name: self.terms.open("variable") for name in before}
        scope.names.update(variables)
        done: list[Term] = []
        if target is not None:
            self._bind(target, self.terms.node("each", iterated), scope, done)
        if test is not None:
            done.append(self.terms.node("test", self._expression(test, scope)))
        self._block(body, scope, done)
        loop = self.terms.node("loop", iterated, *done)
        for name, variable in variables.items():
            after = scope.names.get(name, variable)
            self.terms.close(variable, [before[name], after])
            scope.names[name] = self.terms.node("after", loop, variable)
        if done:
            effects.append(loop)

    def _with(
        self,
        items: Sequence[ast.withitem],
        body: Sequence[ast.stmt],
        scope: Scope,
        effects: list[Term],
    ) -> bool:
        entered = []
        for item in items:
            entered.append(self._expression(item.context_expr, scope))
            if item.optional_vars is not None:
                self._bind(
                    item.optional_vars, self.terms.node("entered", entered[-1]), scope, effects
                )
        inner: list[Term] = []
        ended = self._block(body, scope, inner)
        effects.append(self.terms.node("with", *entered, self.terms.node("block", *inner)))
        return ended
