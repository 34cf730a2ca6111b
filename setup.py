"""Build step beside pyproject.toml: the demo's samples are copied into the wheel, as
`app/samples`.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


def copy_samples(folder: Path) -> None:
    """Copy the samples named in app/cli/samples.json, and their problems, from tests/zoo."""
    zoo = ROOT / "tests" / "zoo"
    for names in json.loads((ROOT / "app/cli/samples.json").read_bytes()).values():
        for name in names:
            source = zoo / f"{name}.py"
            problem = re.search(rb"problem=([a-z0-9_]+)", source.read_bytes())
            if problem is None:
                raise ValueError(f"{source}: expected problem=… in line 1, got none")
            for path in (source, zoo / "problems" / f"{problem[1].decode()}.py"):
                target = folder / path.relative_to(zoo)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


class BuildWithSamples(build_py):
    """Adds the samples to a built package; an editable install finds them in the checkout."""

    def run(self) -> None:
        """Build the package, then copy the samples."""
        super().run()
        if not self.editable_mode:
            copy_samples(Path(self.build_lib) / "app" / "samples")


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithSamples})
