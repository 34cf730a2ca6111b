"""EXPORT: texts that hold a secret: agents echo their environment into transcripts.

Finds credentials that their form alone gives away.  It does not find passwords, nor
names and addresses of people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FORMS: tuple[tuple[str, str, str], ...] = (
    ("AWS access key", "AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("AWS session key", "ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,}\b"),
    ("OpenAI or Anthropic key", "sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("GitHub token", "gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    ("Google key", "AIza", r"\bAIza[0-9A-Za-z_-]{35}\b"),
    ("Slack token", "xox", r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    ("private key", "PRIVATE KEY", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    ("Weights & Biases key", "WANDB_API_KEY", r"WANDB_API_KEY\W{1,3}[0-9a-f]{40}"),
    (
        "URL with a password",
        "://",
        r"\b[a-z][a-z0-9+.-]{2,30}://[^\s:/@'\"{}<]{1,64}:[^\s/@'\"{}<]{6,}@",
    ),
)
_APART = " \n "
"""Between texts: no form spans it, and words end there."""
TELLTALE = "|".join(sorted({re.escape(needle) for _, needle, _ in _FORMS}))
"""Prefilter: a regular expression of plain words that every text with a secret
contains, for searches of many texts.
"""
_COMPILED = tuple((name, needle, re.compile(form)) for name, needle, form in _FORMS)


def found(texts: Iterable[str]) -> str | None:
    """Kind of the first secret in the texts, or None; never the secret itself."""
    whole = _APART.join(texts)
    for name, needle, form in _COMPILED:
        if needle in whole and form.search(
            whole
        ):  # the needle first: it costs a hundredth of the form
            return name
    return None
