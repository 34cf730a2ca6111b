"""EXPORT: prompts for candidates that came without one."""

from __future__ import annotations

import re

from app.domain.backend import BACKENDS
from app.domain.dataset.example_facts import EvaluationFacts
from app.domain.problem import is_by_cases
from app.domain.source import source_text

TEMPLATE = "template@2"
"""Changes with every character of `_TEMPLATE` and `_PLAIN_TEMPLATE`."""

_TEMPLATE = """\
You are an expert in writing fast GPU kernels.

Here is a PyTorch reference:

{reference}

Write an optimised replacement named `{entry_point}New` in {language}. It must have the same \
constructor arguments and the same forward signature as `{entry_point}`, give the same outputs \
within floating-point tolerance for every input, and do the computation in kernels of its own. \
Answer with the complete Python module in one code block."""

CASES_TEMPLATE = "cases_template@1"
"""The same of `_CASES_TEMPLATE`, for a problem that is given by cases."""

_CASES_TEMPLATE = """\
You are an expert in writing fast GPU kernels.

Here are cases of what is to be computed, each with its inputs and the right outputs:

{reference}

Write a class named `{entry_point}New` in {language}. Called with the inputs of a case, by \
position or by the names that they are given, an instance of it must return the outputs of that \
case within its tolerance, for every shape that there is, and do the computation in kernels of its \
own. Answer with the complete Python module in one code block."""

_PLAIN_TEMPLATE = """\
You are an expert in writing fast PyTorch.

Here is a PyTorch reference:

{reference}

Write an optimised replacement named `{entry_point}New` of PyTorch operators alone, without a \
kernel of your own. It must have the same constructor arguments and the same forward signature as \
`{entry_point}`, and give the same outputs within floating-point tolerance for every input. Answer \
with the complete Python module in one code block."""
"""For candidates of the backend `torch`, which bring no kernel: they are no answer
to a prompt that asks for one.
"""


def template_prompt(facts: EvaluationFacts, reference: str) -> tuple[str, str]:
    """Our own prompt for a problem, and its name and version."""
    by_cases = is_by_cases(source_text.encode(reference), facts.entry_point)
    own = _PLAIN_TEMPLATE if not BACKENDS[facts.backend].brings_kernels else _TEMPLATE
    template, name = (_CASES_TEMPLATE, CASES_TEMPLATE) if by_cases else (own, TEMPLATE)
    return (
        template.format(
            reference=fence(reference),
            entry_point=facts.entry_point,
            language=BACKENDS[facts.backend].language,
        ),
        name,
    )


def fence(code: str) -> str:
    """A Markdown code block with a fence longer than any run of backticks inside."""
    ticks = "```"
    if ticks in code:
        ticks = "`" * (1 + max(len(run) for run in re.findall(r"`+", code)))
    return f"{ticks}python\n{code.rstrip()}\n{ticks}"
