"""Compiled code of kernels: from a process's mailbox to lines of a page, whatever
the process writes.
"""

from __future__ import annotations

import mmap

import flask
import pytest
from werkzeug.exceptions import BadRequest, NotFound

from app.domain.evidence import KernelCode
from app.web import kernel_code_view
from workers.protocol import control_channel, kernel_code

MLIR = """#loc = loc("/tmp/candidate.py":11:0)
#loc3 = loc(unknown)
#loc18 = loc("/tmp/candidate.py":17:26)
#loc19 = loc("/usr/lib/standard.py":290:36)
#loc51 = loc("e"(#loc18))
#loc58 = loc(callsite(#loc19 at #loc51))
#loc60 = loc(callsite(#loc60 at #loc60))
module {
  %0 = arith.constant 1 : i32 loc(#loc3)
  %1 = tt.reduce %0 loc(#loc58)
  %2 = tt.load %1 loc(#loc60)
} loc(#loc)"""

PTX = """.visible .entry k(
)
{
.loc 1 17 4 // candidate.py:17:4
mov.u32 %r1, %ctaid.x;
.loc 2 290 36
add.s32 %r2, %r1, 1;
ret;
}
.file 1 "/tmp/candidate.py"
.file 2 "/usr/lib" "standard.py\""""


@pytest.fixture
def mailbox() -> mmap.mmap:
    return mmap.mmap(-1, control_channel.MAILBOX_BYTES)


def test_texts_come_out_as_they_went_in(mailbox: mmap.mmap) -> None:
    forms = {"ttir": "a", "ptx": "ünïcode\n", "cubin": b"\x00", "llir": "left out"}
    assert kernel_code.write(mailbox, [("softmax", forms), ("empty", {})]) == 2
    assert kernel_code.read(mailbox, 2) == (
        KernelCode(kernel="softmax", form="ttir", text="a"),
        KernelCode(kernel="softmax", form="ptx", text="ünïcode\n"),
    )


def test_there_are_no_more_and_no_longer_texts_than_there_is_room_for(mailbox: mmap.mmap) -> None:
    long = "x" * (2 * kernel_code.MOST_BYTES)
    count = kernel_code.write(mailbox, [(f"k{number}", {"ptx": long}) for number in range(100)])
    found = kernel_code.read(mailbox, count)
    assert count == kernel_code.MOST
    assert len(found[0].text) == kernel_code.MOST_BYTES
    assert sum(len(each.text) for each in found) <= control_channel.LAUNCHES_BYTES


def test_a_process_that_lies_shows_nothing_else(mailbox: mmap.mmap) -> None:
    rows = [
        (b"beyond", b"ptx", control_channel.LAUNCHES_BYTES, 8),
        (b"long", b"ptx", 0, 0xFFFFFFFF),
        (b"form", b"exe", 0, 4),
        (b"\xff\x00", b"ptx", 0, 4),
    ]
    for index, row in enumerate(rows):
        place = control_channel.LAUNCHES_AT + index * kernel_code.ROW.size
        mailbox[place : place + kernel_code.ROW.size] = kernel_code.ROW.pack(*row)
    [only] = kernel_code.read(mailbox, 4)
    assert (only.form, only.text) == ("ptx", "\ufffd" * 4)
    assert kernel_code.read(mailbox, -1) == ()


def test_a_line_of_the_ir_names_the_line_of_the_source_through_names_and_calls() -> None:
    lines = {line.text.strip()[:2]: line.source for line in kernel_code_view.parsed(MLIR, "ttir")}
    assert (lines["%0"], lines["%1"], lines["%2"], lines["} "]) == (None, 17, None, 11)


def test_an_instruction_of_ptx_names_the_line_of_the_source_but_not_of_other_files() -> None:
    lines = {line.text[:3]: line.source for line in kernel_code_view.parsed(PTX, "ptx")}
    assert (lines["mov"], lines["add"], lines["ret"], lines[".vi"]) == (17, None, None, None)


def test_a_kernel_that_was_compiled_twice_is_two() -> None:
    codes = [
        KernelCode(kernel="k", form=form, text=form) for form in ("ttir", "ptx", "ttir", "ptx")
    ]
    app = flask.Flask("test")
    with app.test_request_context("/?kernel=1&form=ttir"):
        found = kernel_code_view.view(codes)
        assert found is not None
        assert (found.kernels, found.kernel, found.forms, found.form) == (
            ("k", "k"),
            1,
            ("ttir", "ptx"),
            "ttir",
        )
    with app.test_request_context("/"):
        assert kernel_code_view.view([]) is None
    with app.test_request_context("/?kernel=-1"), pytest.raises(BadRequest):
        kernel_code_view.view(codes)
    for query in ("kernel=2", "form=exe"):
        with app.test_request_context(f"/?{query}"), pytest.raises(NotFound):
            kernel_code_view.view(codes)


@pytest.mark.timeout(20)
def test_locations_that_name_themselves_many_times_are_followed_once() -> None:
    """Each reference was followed by itself: 50 of them, 8 deep, are 4e13."""
    hostile = "#loc1 = loc(fused[" + "#loc1, " * 50 + "])\n%0 = tt.load loc(#loc1)"
    assert [line.source for line in kernel_code_view.parsed(hostile, "ttir")] == [None, None]
