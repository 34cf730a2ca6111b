"""ENQUEUE: problems and samples that others made, brought in to be evaluated, judged
and exported here.

    kernelbench          a KernelBench checkout: problems, and the samples of runs
    caesar               multi-turn logs of KernelBench's Caesar
    drkernel_rl          Dr. Kernel's RL prompts, Parquet: problems
    drkernel_coldstart   Dr. Kernel's cold-start dialogues, Parquet: a trajectory each
    kernelbook           GPUMODE/KernelBook, Parquet: problems with the licence of their repository
    jsonl                one sample a line: reference, messages or response or candidate
    atif                 trajectories in Harbor's interchange format
    verifiers            rollouts that the package verifiers has saved

Measurements claimed by a foreign file are kept beside the run that it belongs to, under `recorded`:
it never becomes a measurement of Assay.  Every sample becomes a trajectory with queued jobs; `assay
eval --pending` waits for them.  The same files again add only new samples.
"""

from __future__ import annotations

from app.imports.atif import atif
from app.imports.base import BadImportError, Imported, Progress
from app.imports.caesar import caesar
from app.imports.drkernel import drkernel_coldstart, drkernel_rl
from app.imports.jsonl import jsonl
from app.imports.kernelbench import kernelbench
from app.imports.kernelbook import kernelbook
from app.imports.verifiers import verifiers

__all__ = [
    "BadImportError",
    "Imported",
    "Progress",
    "atif",
    "caesar",
    "drkernel_coldstart",
    "drkernel_rl",
    "jsonl",
    "kernelbench",
    "kernelbook",
    "verifiers",
]
