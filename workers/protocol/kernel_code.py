"""Compiled code of kernels: rows of fixed size and their texts, which a confined process writes and
the referee reads. It is testimony: people can see it, and no rule depends on it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Mapping

from app.domain.evidence import KernelCode
from workers.protocol import control_channel

FORMS = ("ttir", "ttgir", "ptx")
"""Triton's intermediate forms that are kept, in the order of compilation; LLVM IR is
long and adds little to PTX.
"""

ROW = struct.Struct("<128s8sII")
"""name, form, offset of the text after the rows, length of the text in bytes."""

MOST = 48
"""Most texts of one evaluation, from the first on."""
MOST_BYTES = 128 << 10
"""Largest size of one text in bytes; the rest is cut off."""
_TEXTS_AT = control_channel.LAUNCHES_AT + MOST * ROW.size
_TEXTS_BYTES = control_channel.LAUNCHES_BYTES - MOST * ROW.size


def write(mailbox: mmap.mmap, kernels: Iterable[tuple[str, Mapping[str, object]]]) -> int:
    """Write the forms of each kernel (name, form → text) over the launches in the
    mailbox; returns the number of rows.
    """
    rows, at = 0, 0
    for name, forms in kernels:
        for form in FORMS:
            text = forms.get(form)
            if not isinstance(text, str) or rows == MOST:
                continue
            data = text.encode("utf-8", "replace")[: min(MOST_BYTES, _TEXTS_BYTES - at)]
            row = ROW.pack(name.encode()[:127], form.encode(), at, len(data))
            place = control_channel.LAUNCHES_AT + rows * ROW.size
            mailbox[place : place + ROW.size] = row
            mailbox[_TEXTS_AT + at : _TEXTS_AT + at + len(data)] = data
            rows, at = rows + 1, at + len(data)
    return rows


def read(mailbox: mmap.mmap, count: int) -> tuple[KernelCode, ...]:
    """The first `count` texts, as reported by the process, without unknown forms and
    texts outside of their area.
    """
    found = []
    for index in range(min(count, MOST)):
        row = ROW.unpack_from(mailbox, control_channel.LAUNCHES_AT + index * ROW.size)
        name, form, at, length = (
            control_channel.field_text(row[0]),
            control_channel.field_text(row[1]),
            row[2],
            row[3],
        )
        if form in FORMS and length <= MOST_BYTES and at + length <= _TEXTS_BYTES:
            data = mailbox[_TEXTS_AT + at : _TEXTS_AT + at + length]
            text = data.decode("utf-8", "replace").replace("\x00", "\ufffd")
            found.append(KernelCode(kernel=name, form=form, text=text))
    return tuple(found)
