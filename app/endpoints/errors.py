"""COLLECT: classes of failed calls, out of a status and the error that a body states."""

from __future__ import annotations

import re

from app.domain.collection.call import CallError, ErrorKind, Retry
from app.endpoints.dialects.base import StatedError
from app.endpoints.headers import Advice

LONGEST_MESSAGE = 500
"""Characters of a server's message that are kept."""

_OVERFLOW = re.compile(
    r"context[_ ]length|context window|maximum context|prompt is too long|too many tokens"
    r"|longer than the model|reduce the length|exceeds? the (model'?s )?max",
    re.IGNORECASE,
)
_POLICY = re.compile(
    r"content[_ ](policy|filter|management)|moderation|safety system|responsible.?ai", re.IGNORECASE
)
_QUOTA = re.compile(
    r"insufficient[_ ]?(quota|funds|credits?|balance)|exceeded your current quota|billing"
    r"|credit balance is too low|payment required",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(r"overloaded|at capacity|server is busy", re.IGNORECASE)
_WORDS = {
    "rate_limit": 429,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "request_too_large": 413,
    "invalid_request": 400,
    "timeout": 504,
    "api_error": 500,
    "server_error": 500,
}
"""Part of a stated kind → the status that it has elsewhere, for errors inside HTTP 200."""

NOT_REACHED = frozenset({502, 521, 522, 523})
"""Statuses of a proxy that reaches no server behind it, for example while that one restarts."""
_RETRY = {
    ErrorKind.RATE_LIMITED: Retry.WAIT,
    ErrorKind.OVERLOADED: Retry.WAIT,
    **dict.fromkeys(
        (
            ErrorKind.CONTENT_POLICY,
            ErrorKind.CONTEXT_OVERFLOW,
            ErrorKind.BAD_REQUEST,
            ErrorKind.UNAUTHORISED,
            ErrorKind.QUOTA,
            ErrorKind.NOT_FOUND,
        ),
        Retry.NEVER,
    ),
}
"""All other kinds: again."""


def classified(
    status: int, stated: StatedError, advice: Advice, *, paid: bool = False
) -> CallError:
    """The error of a call with that HTTP status and stated error."""
    kind = ErrorKind.OVERLOADED
    if status not in NOT_REACHED:
        kind = _kind(_status(status, stated), f"{stated.kind} {stated.message}", stated, advice)
    retry = _RETRY.get(kind, Retry.AGAIN)
    if advice.should_retry is False and kind is not ErrorKind.RATE_LIMITED:
        retry = Retry.NEVER
    message = stated.message or f"HTTP {status} without a message"
    return CallError(
        kind=kind,
        message=f"HTTP {status}: {message}"[:LONGEST_MESSAGE],
        retry=retry,
        retry_after_s=None if retry is Retry.NEVER else advice.retry_after_s,
        paid=paid,
    )


def failed(kind: ErrorKind, message: str, *, paid: bool = False) -> CallError:
    """The error of a call that has no status: timeouts, broken streams."""
    retry = _RETRY.get(kind, Retry.AGAIN)
    return CallError(kind=kind, message=message[:LONGEST_MESSAGE], retry=retry, paid=paid)


def without(secret: str | None, error: CallError) -> CallError:
    """The error with the key struck out of its message: some servers repeat it."""
    if not secret or secret not in error.message:
        return error
    return CallError(**{**vars(error), "message": error.message.replace(secret, "[key]")})


def _status(status: int, stated: StatedError) -> int:
    """The status that counts: of an error inside HTTP 200 the one that it states, else the one
    that its words have elsewhere.
    """
    if status != 200:
        return status
    if stated.status is not None:
        return stated.status
    text = f"{stated.kind} {stated.message}"
    if _QUOTA.search(text):
        return 402
    if _OVERFLOW.search(text) or _POLICY.search(text):
        return 400
    return next((code for word, code in _WORDS.items() if word in stated.kind), 500)


def _kind(status: int, text: str, stated: StatedError, advice: Advice) -> ErrorKind:
    if status in (401, 403):
        policy = stated.moderated or _POLICY.search(text)
        return ErrorKind.CONTENT_POLICY if policy else ErrorKind.UNAUTHORISED
    if status == 402:
        waits = advice.retry_after_s is not None
        return ErrorKind.RATE_LIMITED if waits else ErrorKind.QUOTA
    if status == 404 or status < 400:
        return ErrorKind.NOT_FOUND
    if status == 429:
        return ErrorKind.QUOTA if _QUOTA.search(text) else ErrorKind.RATE_LIMITED
    if status == 413 or (400 <= status < 500 and _OVERFLOW.search(text)):
        return ErrorKind.CONTEXT_OVERFLOW
    if status in (400, 405, 406, 410, 415, 422, 501):
        return _of_a_request(text)
    if status in (503, 529) or _OVERLOADED.search(text):
        return ErrorKind.OVERLOADED
    return ErrorKind.SERVER_ERROR


def _of_a_request(text: str) -> ErrorKind:
    if _POLICY.search(text):
        return ErrorKind.CONTENT_POLICY
    return ErrorKind.QUOTA if _QUOTA.search(text) else ErrorKind.BAD_REQUEST
