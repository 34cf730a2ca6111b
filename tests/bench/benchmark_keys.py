"""Write the keys of a benchmark's problems (hashes, no code) for `app/domain/benchmarks`.

    python -m tests.bench.benchmark_keys --name KernelBench --source URL --out
    app/domain/benchmarks/kernelbench.json \\
        CHECKOUT [CHECKOUT …]

Several checkouts are several versions of the benchmark: a problem has the keys of all of them.
Semantic keys are traced on fake tensors: no memory, no arithmetic.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from app.domain.dataset import problem_family
from workers.protocol import layout
from workers.shims.problem.observers.operators import OperatorTrace


def main() -> int:
    """Write the file; say for how many problems there is no semantic key."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True)
    parser.add_argument("--source", required=True, help="repository and commits, for people")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("checkouts", type=Path, nargs="+")
    options = parser.parse_args()
    problems: dict[str, dict[str, set[str]]] = {}
    missing = []
    for checkout in options.checkouts:
        for path in sorted(checkout.glob("KernelBench/level*/*.py")):
            name = f"{path.parent.name}/{path.stem}"
            own = problems.setdefault(name, {"family": set(), "operators": set()})
            own["family"].add(problem_family.keys(path.read_bytes(), "Model").family)
            try:
                version, _, unnumbered = operators_of(path.read_text()).split(":")
            except Exception as error:  # noqa: BLE001 (stands around the benchmark's code)
                missing.append(f"{path}: {type(error).__name__}: {str(error)[:120]}")
            else:
                own["operators"].add(f"{version}:{unnumbered}")
    listed = {
        name: {kind: sorted(found) for kind, found in keys.items()}
        for name, keys in sorted(problems.items())
    }
    fields = {
        "name": options.name,
        "source": options.source,
        "family_version": problem_family.VERSION,
        "problems": listed,
    }
    options.out.write_text(json.dumps(fields, indent=0, separators=(",", ":")) + "\n")
    print(
        f"{len(listed)} problems, {len(missing)} files without a semantic key", *missing, sep="\n  "
    )
    return 0


def operators_of(reference: str) -> str:
    """The semantic key of a problem, without running it."""
    module = types.ModuleType("reference")
    with (
        warnings.catch_warnings(action="ignore"),
        FakeTensorMode(allow_non_fake_inputs=True),
        torch.no_grad(),
    ):
        exec(compile(reference, "reference.py", "exec"), module.__dict__)
        arguments: Any = getattr(module, "get_init_inputs", list)()
        model = module.__dict__["Model"](*arguments)
        if any(isinstance(part, torch.nn.Dropout) and part.p > 0 for part in model.modules()):
            model.eval()  # a worker does so with a model that is random in train mode
        inputs = module.__dict__["get_inputs"]()
        with OperatorTrace(layout.values(inputs)) as trace:
            outputs = model(*inputs)
        return trace.key(layout.values(outputs))


if __name__ == "__main__":
    sys.exit(main())
