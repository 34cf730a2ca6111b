"""Scripts in processes of their own, in which Triton interprets kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def answer(folder: Path, source: str) -> Any:
    """The JSON that a script prints; it is a file of `folder`, because Triton reads its source."""
    path = folder / "kernels.py"
    path.write_text(source)
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    ran = subprocess.run(
        [sys.executable, path], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)
