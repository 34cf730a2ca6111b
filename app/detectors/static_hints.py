"""JUDGE: hints about the source for human readers: advice, which never changes a label.

Evidence: the text, parsed and never run: Python by its syntax tree, CUDA by tokens inside
string literals.  Text is the candidate's to write, so nothing here proves anything, and the
absence of hints proves less: names can be put together at run time.  Comments and
docstrings are not read at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from app.domain.source import syntax_tree
from app.domain.verdict import Finding, Label, Subject

MAX_BYTES = 256 << 10
"""Longer sources are not parsed: honest ones have some thousand bytes."""

MAX_HINTS = 40
"""Hints that a finding lists; it says how many it leaves out."""
SNIPPET = 120
"""Characters of a span that a hint quotes."""

CALLS = {
    "sys._getframe": "reads callers' frames",
    "inspect.currentframe": "reads callers' frames",
    "inspect.stack": "reads callers' frames",
    "gc.get_objects": "walks live objects",
    "gc.get_referrers": "walks live objects",
    "exec": "runs text as code",
    "eval": "runs text as code",
    "compile": "runs text as code",
    "__import__": "imports by a computed name",
    "importlib.import_module": "imports by a computed name",
    "base64.b64decode": "decodes hidden text",
    "os.fork": "starts processes",
    "os._exit": "ends the process",
    "sys.exit": "ends the process",
    "os.kill": "signals processes",
    "time.sleep": "sleeps",
    "open": "touches files",
    "torch.load": "touches files",
    "torch.save": "touches files",
    "torch.compile": "has torch.compile write the kernels",
    "torch.manual_seed": "seeds generators",
    "torch.library.Library": "replaces library operators",
    "threading.Thread": "starts threads",
}
"""Calls by dotted name → why a reader should look."""

MODULES = {
    "ctypes": "calls native libraries",
    "cffi": "calls native libraries",
    "gc": "walks live objects",
    "inspect": "reads callers' frames or sources",
    "multiprocessing": "starts processes",
    "socket": "opens connections",
    "subprocess": "starts processes",
    "threading": "starts threads",
    "urllib": "opens connections",
    "requests": "opens connections",
}
"""Imports → why."""

PATCHABLE = frozenset({"torch", "time", "triton", "builtins", "sys", "gc", "tl", "F", "nn"})
"""Modules with attributes that are patched by an assignment."""

IDENTITIES = frozenset({"data_ptr", "_version", "untyped_storage"})
"""Attributes that a cache by identity reads from a tensor."""

TOKENS = re.compile(
    r"\b(at::(?!Tensor\b|cuda\b|ScalarType\b|kFloat\b|Half\b|BFloat16\b|empty\b|zeros\b)\w+|torch::(?:mm|matmul|bmm|addmm|"
    r"conv\w*|softmax|einsum|linear|layer_norm)\b|cublas\w+|cudnn\w+|cusparse\w+|cutlass::\w+|cudaStreamCreate\w*|"
    r"cudaLaunchHostFunc|cudaEventElapsedTime|cudaGraphLaunch|cudaLimitPersistingL2CacheSize|dlopen|dlsym|std::thread|"
    r"ptrace|createpolicy)"
)
"""In CUDA or C++ text: library calls, streams, clocks, caches, and doors to the system."""


@dataclass(frozen=True, kw_only=True)
class Hint:
    """One place in the source, lines from 1 and columns from 0, as editors and `ast` count them."""

    why: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class StaticHints:
    """Advice."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """One finding with all places, in the order of the source."""
        found = hints(subject.candidate)
        if not found:
            return
        reasons = list(dict.fromkeys(hint.why for hint in found))
        yield Finding(
            detector="static_hints",
            version=self.version,
            label=Label.CLEAN,
            summary=f"a reader may want to look: the source {', '.join(reasons[:4])}"
            + (f" and {len(reasons) - 4} more" if len(reasons) > 4 else ""),
            evidence={
                "hints": [asdict(hint) for hint in found[:MAX_HINTS]],
                "left_out": max(0, len(found) - MAX_HINTS),
            },
        )


def hints(source: bytes) -> list[Hint]:
    """Places worth a look; none where the source is too long or does not parse."""
    if len(source) > MAX_BYTES:
        return []
    try:
        text = source.decode("utf-8")
        tree = syntax_tree.parse(text)
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # errors of the parser on a hostile text
        return []
    lines = text.split("\n")
    docstrings = _docstrings(tree)
    found = [
        _hint(node, why, lines)
        for node in ast.walk(tree)
        if node not in docstrings
        for look in LOOKS
        for why in look(node)
    ]
    return sorted(found, key=lambda hint: (hint.line, hint.column, hint.why))


def _calls(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and (why := CALLS.get(_dotted(node.func))):
        yield why


def _imports(node: ast.AST) -> Iterator[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module]
    yield from dict.fromkeys(why for name in names if (why := MODULES.get(name.partition(".")[0])))


def _patches(node: ast.AST) -> Iterator[str]:
    """`torch.allclose = …`; switches such as `torch.backends.cudnn.benchmark = True`
    are settings, and named so.
    """
    targets = node.targets if isinstance(node, ast.Assign) else []
    for target in targets:
        name = _dotted(target)
        if isinstance(target, ast.Attribute) and name.partition(".")[0] in PATCHABLE:
            yield "changes global settings" if ".backends." in name else "patches a library"
    setting = isinstance(node, ast.Call) and _dotted(node.func) == "setattr" and bool(node.args)
    if setting and _dotted(node.args[0]).partition(".")[0] in PATCHABLE:  # type: ignore[attr-defined]
        yield "patches a library"


def _classes(node: ast.AST) -> Iterator[str]:
    bases = [_dotted(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    if "torch.Tensor" in bases or "Tensor" in bases:
        yield "defines a tensor subclass"
    if "Model" in bases:
        yield "inherits from the reference"


def _identities(node: ast.AST) -> Iterator[str]:
    """`x.data_ptr()` compared or kept; handing it to a native kernel is how pointers
    are passed, and looks the same.
    """
    if isinstance(node, ast.Compare | ast.Dict | ast.Subscript):
        inner = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
        if inner & IDENTITIES:
            yield "keys something by a tensor's identity"


def _fallbacks(node: ast.AST) -> Iterator[str]:
    """An exception handler around a call that returns something else."""
    if (
        isinstance(node, ast.Try)
        and any(_returns(handler) for handler in node.handlers)
        and _returns(node)
    ):
        yield "falls back to something else when an error occurs"


def _returns(node: ast.AST) -> bool:
    body = node.body if isinstance(node, ast.Try | ast.ExceptHandler) else []
    return any(
        isinstance(item, ast.Return) and item.value is not None
        for each in body
        for item in ast.walk(each)
    )


def _native(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for token in dict.fromkeys(TOKENS.findall(node.value)):
            yield f"names {token} in native code"


LOOKS: tuple[Callable[[ast.AST], Iterator[str]], ...] = (
    _calls,
    _imports,
    _patches,
    _classes,
    _identities,
    _fallbacks,
    _native,
)


def _dotted(node: ast.AST) -> str:
    """`torch.cuda.Stream` of an attribute chain over a name; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    """Constants that document: prose may name anything."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        first.value
        for node in ast.walk(tree)
        if isinstance(node, owners)
        for first in node.body[:1]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    }


def _hint(node: ast.AST, why: str, lines: list[str]) -> Hint:
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = (
        getattr(node, "end_lineno", line),
        getattr(node, "end_col_offset", column),
    )
    text = lines[line - 1].strip() if line <= len(lines) else ""
    return Hint(
        why=why,
        line=line,
        column=column,
        end_line=end_line or line,
        end_column=end_column or column,
        text=text[:SNIPPET],
    )
