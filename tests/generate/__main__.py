"""Fill the database with generated data, or remove it.

python -m tests.generate --scale 100000    then `assay up` to look around
python -m tests.generate --forget"""

from __future__ import annotations

import argparse
import time

from app.cli import output, services
from app.settings import Settings
from tests import generate


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.generate", description=__doc__)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--scale", type=int, metavar="N", help="store N generated evaluations, by COPY"
    )
    wanted.add_argument("--forget", action="store_true", help="remove what --scale stored")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.scale is not None and asked.scale < 1:
        parser.error(f"--scale: expected at least 1, got {asked.scale}")
    with services.client(Settings.from_env()) as client, output.progress("generated data") as bar:
        task = bar.add_task("evaluations" if asked.scale else "runs", total=asked.scale)
        if asked.forget:
            count = generate.remove(
                client.database, on_progress=lambda done: bar.update(task, completed=done)
            )
            print(f"{count} generated runs removed")
            return
        started_s = time.monotonic()
        try:
            rows = generate.fill(
                client.database,
                asked.scale,
                seed=asked.seed,
                on_progress=lambda done: bar.update(task, completed=done),
            )
        except ValueError as error:
            parser.error(str(error))
        took_s = time.monotonic() - started_s
        print(
            f"{rows} rows of {asked.scale} evaluations in {took_s:.1f} s, {rows / took_s:.0f}"
            " rows/s"
        )


if __name__ == "__main__":
    main()
