"""The wheel that users install beside their trainers: one top-level name, and none
of the service's packages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app import kernel_assay
from app.client import Client, KernelSession
from app.domain.collection import feedback
from app.kernel_assay import backend
from tests.unit.test_client_imports import SERVICE

PROGRAM = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {[*SERVICE, "app", "workers", "torch"]!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
import kernel_assay
from kernel_assay.domain.collection import feedback
from kernel_assay.integrations import trl, verl

with kernel_assay.Client(url="http://127.0.0.1:1") as client:
    session = kernel_assay.KernelSession(client, store=False).open("class Model: ...")
    print(session.messages)
print({{name: version.sha256 for name, version in feedback.VERSIONS.items()}})
print(sorted(kernel_assay.__all__))
try:
    kernel_assay.Client()
except ValueError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = folder / backend.build_wheel(str(folder))
    where = folder / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
    ]
    subprocess.run([*command, "--target", where, wheel], check=True, capture_output=True)
    return where


def test_the_wheel_says_what_the_service_says(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, installed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    messages, versions, names, refused = done.stdout.splitlines()
    with Client(url="http://127.0.0.1:1") as client:
        assert messages == repr(
            KernelSession(client, store=False).open("class Model: ...").messages
        )
    assert versions == repr({name: version.sha256 for name, version in feedback.VERSIONS.items()})
    assert names == repr(sorted(kernel_assay.__all__))
    assert (
        refused
        == "url: expected Client(url=…, token=…), got none, and the service is not installed here "
        "(no kernel_assay.client.database_transport)"
    )


def test_the_wheel_claims_one_name_and_asks_for_little(installed: Path) -> None:
    assert {path.name for path in installed.iterdir()} == {
        "kernel_assay",
        "kernel_assay_client-0.1.0.dist-info",
    }
    held = {path.stem for path in (installed / "kernel_assay").rglob("*.py")}
    assert not held & {"zoo", "zoo_report", "database_transport"}
    (about,) = installed.glob("*.dist-info/METADATA")
    wanted = [line for line in about.read_text().splitlines() if line.startswith("Requires-Dist")]
    assert wanted == ["Requires-Dist: msgspec>=0.20", "Requires-Dist: urllib3>=2.6"]
    (points,) = installed.glob("*.dist-info/entry_points.txt")
    assert points.read_text() == "[verl.plugins]\nassay = kernel_assay.training.verl_autoload\n"


def test_an_import_that_the_wheel_cannot_serve_ends_the_build(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def late():\n    from app.store import jobs\n")
    with pytest.raises(
        ValueError, match=r"kernel_assay/module\.py: expected imports of .*, got app\.store"
    ):
        backend._content(module, "kernel_assay/module.py")
    for line in (
        "from app.domain import zoo\n",
        "import app.domain.zoo_report\n",
        "from app.domain.zoo import Case\n",
    ):
        module.write_text(line)
        with pytest.raises(
            ValueError, match=r"modules in the wheel, got kernel_assay\.domain\.zoo"
        ):
            backend._content(module, "m.py")
    module.write_text(
        "from app.client import Client  # see app.client.session, myapp.client and ./app.client\n"
    )
    assert (
        backend._content(module, "m.py")
        == b"from kernel_assay.client import Client  # see kernel_assay.client.session,"
        b" myapp.client and ./app.client\n"
    )
    module.write_text("if TYPE_CHECKING:\n    from app.store import jobs\n")
    assert backend._content(module, "m.py") == module.read_bytes()
