"""ENQUEUE: build backend (PEP 517) of the distribution `kernel-assay-client`.

The wheel holds copies of the modules that users import, under the one name `kernel_assay`: every
mention of a module is rewritten (`app.client` becomes `kernel_assay.client`), so that the names
`app` and `workers` stay free.  A module that imports anything of this repository that is not in the
wheel ends the build.  Wheels are built from a checkout; there are no source distributions.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = "kernel_assay"
MODULES = {
    "app.kernel_assay": PACKAGE,
    "app.client": f"{PACKAGE}.client",
    "app.domain": f"{PACKAGE}.domain",
    "app.integrations": f"{PACKAGE}.integrations",
    "app.plugins": f"{PACKAGE}.plugins",
    "app.settings": f"{PACKAGE}.settings",
    "workers.training": f"{PACKAGE}.training",
}
"""Module or package of the repository → its name in the wheel."""
NEEDS_SERVICE = "app.client.database_transport"
"""Module that a client without a URL imports when it is made."""
LEFT_OUT = frozenset(
    {NEEDS_SERVICE, "app.domain.zoo", "app.domain.zoo_report", "app.kernel_assay.backend"}
)
"""Modules that need the service, read the samples of a checkout, or build the wheel."""

_MENTION = re.compile(rf"(?<![\w.])(?<!\./)(?:{'|'.join(re.escape(name) for name in MODULES)})\b")
_TIME = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every file, so that the same sources are the same wheel."""


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,  # noqa: ARG001 (PEP 517)
    metadata_directory: str | None = None,  # noqa: ARG001
) -> str:
    """Write the wheel; its file name.  Raises ValueError for an import that the
    wheel cannot serve.
    """
    about = _about()
    stem = f"{about['name'].replace('-', '_')}-{about['version']}"
    files = {**dict(sources()), **_metadata(about, f"{stem}.dist-info")}
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n".encode()
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(zipfile.ZipInfo(path, _TIME), data, zipfile.ZIP_DEFLATED)
    return name


def sources() -> Iterator[tuple[str, bytes]]:
    """Path in the wheel and content of every module and data file."""
    for name, renamed in MODULES.items():
        base = ROOT / name.replace(".", "/")
        paths = sorted(base.rglob("*")) if base.is_dir() else [base.with_suffix(".py")]
        for path in paths:
            if _belongs(path):
                suffix = path.relative_to(base).as_posix() if base.is_dir() else ""
                place = renamed.replace(".", "/") + (f"/{suffix}" if suffix else ".py")
                yield place, _content(path, place)
    yield f"{PACKAGE}/py.typed", b""


def rewritten(text: str) -> str:
    """The text with every mentioned module under its name in the wheel."""
    return _MENTION.sub(lambda match: MODULES[match[0]], text)


def _belongs(path: Path) -> bool:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    if not path.is_file() or "__pycache__" in path.parts or module in LEFT_OUT:
        return False
    return path.suffix in (".py", ".json", ".yaml") or path.match("*.*.md")


def _content(path: Path, place: str) -> bytes:
    if path.suffix in (".md", ".json"):
        return path.read_bytes()
    text = rewritten(path.read_text())
    if path.suffix != ".py":
        return text.encode()
    tree = ast.parse(text)
    for name in _imported(tree):
        if name.partition(".")[0] in ("app", "workers") and not _only_for_types(tree, name):
            raise ValueError(f"{place}: expected imports of {', '.join(MODULES)}, got {name}")
        if name in _ABSENT:
            raise ValueError(f"{place}: expected imports of modules in the wheel, got {name}")
    return text.encode()


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names that may be modules: `from a import b` gives `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _only_for_types(tree: ast.Module, name: str) -> bool:
    """True if the module is imported under `if TYPE_CHECKING` alone."""
    typed = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    others = ast.Module(body=[node for node in tree.body if node not in typed], type_ignores=[])
    return name not in _imported(others)


_ABSENT = frozenset(map(rewritten, LEFT_OUT - {NEEDS_SERVICE}))
"""Modules left out, by their names in the wheel."""


def _about() -> dict[str, Any]:
    """Metadata of the distribution."""
    own = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {**own, **{name: whole[name] for name in own["dynamic"]}}


def _metadata(about: Mapping[str, Any], folder: str) -> dict[str, bytes]:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {about['name']}",
        f"Version: {about['version']}",
        f"Summary: {about['description']}",
        f"License-Expression: {about['license']}",
        "License-File: LICENSE",
        f"Requires-Python: {about['requires-python']}",
        *(f"Requires-Dist: {each}" for each in about["dependencies"]),
        "Description-Content-Type: text/markdown",
    ]
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in listed.items())
        for group, listed in about["entry-points"].items()
    )
    return {
        f"{folder}/METADATA": "\n".join([*lines, "", (HERE / "README.md").read_text()]).encode(),
        f"{folder}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: assay\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        f"{folder}/entry_points.txt": points.encode(),
        f"{folder}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
