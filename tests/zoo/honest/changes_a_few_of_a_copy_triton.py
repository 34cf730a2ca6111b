# zoo: problem=penalised_scores backend=triton status=passed verdict=clean findings=-
"""One kernel changes a few elements of a copy of the input; the copy, forty times its work, is the library's."""

import triton
import triton.language as tl
from torch import nn


@triton.jit
def penalise(scores_ptr, seen_ptr, penalty_ptr, words, SEEN: tl.constexpr, WIDTH: tl.constexpr):
    text = tl.program_id(0)
    place = tl.arange(0, WIDTH)
    word = tl.load(seen_ptr + text * SEEN + place, mask=place < SEEN, other=0)
    penalty = tl.load(penalty_ptr + text)
    at = scores_ptr + text * words + word
    score = tl.load(at, mask=place < SEEN, other=0.0)
    tl.store(at, tl.where(score > 0, score / penalty, score * penalty), mask=place < SEEN)


class ModelNew(nn.Module):
    def forward(self, scores, seen, penalty):
        out = scores.clone()
        many = seen.shape[1]
        penalise[(len(scores),)](out, seen, penalty, out.shape[1], SEEN=many, WIDTH=triton.next_power_of_2(many))
        return out
