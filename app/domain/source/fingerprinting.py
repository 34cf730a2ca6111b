"""EXPORT: a process that reads fingerprints: `python -m app.domain.source.fingerprinting`.

A JSON list of sources a line in, a JSON list of their fingerprints a line out.  A program of its
own, so that callers need no guarded main module.
"""

from __future__ import annotations

import json
import sys

from app.domain.source import near_duplicates


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin.buffer:
        found = map(near_duplicates.fingerprint, json.loads(line))
        answer = [[one.normalised, one.renamed, one.signature.hex()] for one in found]
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
