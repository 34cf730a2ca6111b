"""Share of KernelBench's problems that are recognised after a rewrite, and pairs of
them that are taken for one.

    python -m tests.bench.problem_recognition PATH_OF_A_KERNELBENCH_CHECKOUT [--json]

Each problem of levels 1 to 3 is rewritten in seven ways that do not change its result.
A rewrite is recognised where its `exact` key, its `family` and the held-out list name
the problem that it came from.  The rewrites are made here with `ast` alone and share no
code with `app.domain.source.canonical`.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.domain.dataset import problem_family
from app.domain.dataset.decontamination import HeldOut, Index

NAMES_KEPT = frozenset(dir(builtins)) | {"get_inputs", "get_init_inputs", "self"}


def main() -> int:
    """Measure and print; 1 where less than 99 % are recognised or two problems are one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    problems = {
        str(path.relative_to(options.checkout)): path.read_text()
        for path in _files(options.checkout)
    }
    if not problems:
        parser.error(
            f"expected KernelBench/level1 to level3 under {options.checkout}, found no problem"
        )
    found = measure(problems)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, one in found["rewrites"].items():
            print(
                f"{name:34} {one['exact']:4} exact {one['family']:4} family {one['held_out']:4}"
                f" held out of {one['of']}"
            )
        print(f"pairs of different problems with one exact key: {len(found['merged'])}")
        print(f"families of more than one problem: {len(found['families'])}")
        for names in found["families"]:
            print("  ", ", ".join(names))
    least = min(one["exact"] / one["of"] for one in found["rewrites"].values())
    return int(least < 0.99 or bool(found["merged"]))


def measure(problems: dict[str, str]) -> dict[str, Any]:
    """`{"rewrites": {name: {"exact", "family", "held_out", "of"}}, "merged":
    [[name…]], "families": [[name…]]}`.
    """
    known = {name: problem_family.keys(text.encode(), "Model") for name, text in problems.items()}
    index = Index(
        held_out=[HeldOut(name=name, reference=text.encode()) for name, text in problems.items()]
    )
    rewrites = {}
    for label, rewrite in REWRITES.items():
        counts = {"exact": 0, "family": 0, "held_out": 0, "of": len(problems)}
        for name, text in problems.items():
            changed, entry_point = rewrite(text)
            own = problem_family.keys(changed.encode(), entry_point)
            counts["exact"] += own.exact == known[name].exact
            counts["family"] += own.family == known[name].family
            match = index.problem(changed.encode(), entry_point)
            counts["held_out"] += match is not None and match.rule in ("exact", "task", "family")
        rewrites[label] = counts
    return {
        "rewrites": rewrites,
        "merged": _alike({name: keys.exact for name, keys in known.items()}),
        "families": _alike({name: keys.family for name, keys in known.items()}),
    }


def _alike(keys: dict[str, str]) -> list[list[str]]:
    names = defaultdict(list)
    for name, key in keys.items():
        names[key].append(name)
    return [listed for listed in names.values() if len(listed) > 1]


def _files(checkout: Path) -> list[Path]:
    return sorted(
        path
        for level in (1, 2, 3)
        for path in (checkout / "KernelBench" / f"level{level}").glob("*.py")
    )


Rewritten = tuple[str, str]
"""Source and entry point."""


def class_renamed(text: str) -> Rewritten:
    """`Model` is `Network`, in `super(Model, self)`, too."""
    tree = ast.parse(text)
    _Rename({"Model": "Network"}, {}).visit(tree)
    return ast.unparse(tree), "Network"


def everything_renamed(text: str) -> Rewritten:
    """Every class, function, argument, local name, constant and attribute that the
    module defines.
    """
    tree = ast.parse(text)
    names = sorted(_bound(tree) - NAMES_KEPT - _imported(tree) - _own_attributes(tree))
    attributes = sorted(_own_attributes(tree))
    renamed = {name: f"n{place}_renamed" for place, name in enumerate(names)}
    _Rename(renamed, {name: f"a{place}_renamed" for place, name in enumerate(attributes)}).visit(
        tree
    )
    return ast.unparse(tree), renamed["Model"]


def super_plain(text: str) -> Rewritten:
    """`super(Model, self)` becomes `super()`, and the reverse."""

    class Swap(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.func, ast.Name) and node.func.id == "super":
                node.args = (
                    []
                    if node.args
                    else [ast.Name("Model", ast.Load()), ast.Name("self", ast.Load())]
                )
            return node

    tree = ast.parse(text)
    if sum(isinstance(node, ast.ClassDef) for node in tree.body) > 1:
        # A `super()` may be of another class than Model.
        return text.replace("super(Model, self)", "super()"), "Model"
    return ast.unparse(Swap().visit(tree)), "Model"


def bare(text: str) -> Rewritten:
    """No comment, docstring or annotation; formatted by `ast.unparse`."""

    class Strip(ast.NodeTransformer):
        def visit_arg(self, node: ast.arg) -> ast.AST:
            node.annotation = None
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            node.returns = None
            self.generic_visit(node)
            node.body = _undocumented(node.body) or [ast.Pass()]
            return node

        def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
            self.generic_visit(node)
            node.body = _undocumented(node.body) or [ast.Pass()]
            return node

    return ast.unparse(ast.fix_missing_locations(Strip().visit(ast.parse(text)))), "Model"


def reordered(text: str) -> Rewritten:
    """Methods and top-level definitions in reverse, attributes that do not depend on
    each other in another order.
    """
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in tree.body if node not in imports and node not in functions]
    tree.body = [*imports, *reversed(functions), *others]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            node.body = [*(each for each in node.body if each not in methods), *methods[::-1]]
        if isinstance(node, ast.FunctionDef):
            node.body = _swapped(node.body)
    return ast.unparse(tree), "Model"


def temporaries(text: str) -> Rewritten:
    """Arguments of calls in `forward` that are calls themselves are put into locals
    before the statement.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            node.body = [new for statement in node.body for new in _hoisted(statement)]
    return ast.unparse(ast.fix_missing_locations(tree)), "Model"


def all_at_once(text: str) -> Rewritten:
    """All of these, one after the other."""
    for change in (super_plain, bare, reordered, temporaries):
        text, _ = change(text)
    return everything_renamed(text)


REWRITES: dict[str, Callable[[str], Rewritten]] = {
    "class renamed": class_renamed,
    "everything renamed": everything_renamed,
    "super() for super(Model, self)": super_plain,
    "bare, formatted anew": bare,
    "independent statements reordered": reordered,
    "temporaries": temporaries,
    "all at once": all_at_once,
}


class _Rename(ast.NodeTransformer):
    """Names and attributes by two tables."""

    def __init__(self, names: dict[str, str], attributes: dict[str, str]) -> None:
        self._names = names
        self._attributes = attributes
        self._in_class_body = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        table = self._attributes if self._in_class_body else self._names
        node.id = table.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._names.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        own = isinstance(node.func, ast.Name) and node.func.id in self._names
        own |= isinstance(node.func, ast.Attribute) and node.func.attr in self._attributes
        for keyword in node.keywords if own else ():
            if keyword.arg is not None:
                keyword.arg = self._names.get(keyword.arg, keyword.arg)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if is_own or node.attr in self._attributes:
            node.attr = self._attributes.get(node.attr, node.attr)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._attributes.get(node.name, self._names.get(node.name, node.name))
        outer, self._in_class_body = self._in_class_body, False
        self.generic_visit(node)
        self._in_class_body = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        node.bases = [self.visit(base) for base in node.bases]
        self._in_class_body = True
        node.body = [self.visit(each) for each in node.body]
        self._in_class_body = False
        return node


def _bound(tree: ast.AST) -> set[str]:
    found = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    found |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {each for node in classes for each in node.body if isinstance(each, ast.FunctionDef)}
    functions = {node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)} - methods
    return found | {node.name for node in classes} | {node.name for node in functions}


def _imported(tree: ast.AST) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {
        (alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names
    }


def _own_attributes(tree: ast.AST) -> set[str]:
    """Names stored on `self`, and methods; without the names that libraries give a meaning to."""
    meant = {"forward", "weight", "bias", "training", "shape", "data"}
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {
        each.name for node in classes for each in node.body if isinstance(each, ast.FunctionDef)
    }
    values = {
        target.id
        for node in classes
        for each in node.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    return {
        name
        for name in stored | methods | values
        if name not in meant and not name.startswith("__")
    }


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    return [
        (
            ast.Assign(targets=[node.target], value=node.value)
            if isinstance(node, ast.AnnAssign) and node.value
            else node
        )
        for node in body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


def _swapped(body: list[ast.stmt]) -> list[ast.stmt]:
    """Neighbours swapped where neither reads or binds the other's names, and neither acts."""
    body = list(body)
    for place in range(len(body) - 1):
        one, other = body[place], body[place + 1]
        if (
            isinstance(one, ast.Assign)
            and isinstance(other, ast.Assign)
            and not (_touched(one) & _touched(other))
        ):
            body[place], body[place + 1] = other, one
    return body


def _touched(node: ast.stmt) -> set[str]:
    """Everything that a statement names, but for the roots of libraries and `self`."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {
        "self",
        "nn",
        "torch",
        "F",
        "math",
    }
    bound = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    attributes = {
        f".{each.attr}"
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    return names | bound | attributes


def _hoisted(statement: ast.stmt) -> list[ast.stmt]:
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign | ast.Return) or not isinstance(value, ast.Call):
        return [statement]
    before: list[ast.stmt] = []
    for place, argument in enumerate(value.args):
        if isinstance(argument, ast.Call):
            name = f"held_{place}"
            before.append(
                ast.Assign(
                    targets=[ast.Name(name, ast.Store())], value=copy.deepcopy(argument), lineno=0
                )
            )
            value.args[place] = ast.Name(name, ast.Load())
    return [*before, statement]


if __name__ == "__main__":
    sys.exit(main())
