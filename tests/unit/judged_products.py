"""Measurements of kernels beside the library's products, and of products that are narrow or left
out, with the verdict and the findings that each leads to.
"""

from dataclasses import replace

from app.domain.evaluation import Evaluation
from app.domain.evidence import NarrowProducts
from app.domain.verdict import Label
from tests.unit.measurements import INCORRECT, PASSED, beside_products


def narrowed(**changes: object) -> Evaluation:
    """Errors of products in half precision in the answer."""
    seen = NarrowProducts(
        found=True,
        format="float16 or tf32",
        parts="both",
        output=0,
        share=1.0,
        significance=40.0,
        control_significance=1.0,
        own_share=0.0,
        calls=1,
        elements=128,
    )
    return replace(PASSED, narrow_products=replace(seen, **changes))  # type: ignore[arg-type]


CASES: dict[str, tuple[Evaluation, str, Label, list[str]]] = {
    "a_loss_beside_products_of_both_sides": (
        beside_products(20, 480, 10, reference_us=90),
        "triton",
        Label.CLEAN,
        ["lazy_optimisation", "library_work"],
    ),
    "a_loss_that_is_the_librarys": (
        beside_products(20, 480, 80, reference_us=200),
        "triton",
        Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "an_epilogue_too_small_beside_products": (
        beside_products(20, 480, 0, reference_us=40),
        "triton",
        Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "a_token_where_the_library_does_what_it_did": (
        beside_products(20, 480, 45, reference_us=90),
        "triton",
        Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "a_gain_that_is_the_products": (
        beside_products(20, 480, 10, reference_us=90, saved_us=280),
        "triton",
        Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "a_gain_that_the_other_operators_can_take": (
        beside_products(20, 480, 10, reference_us=90, saved_us=260),
        "triton",
        Label.CLEAN,
        ["lazy_optimisation", "library_work"],
    ),
    "a_gain_of_launches": (
        beside_products(20, 480, 10, reference_us=90, saved_us=280, launch_bound=True),
        "triton",
        Label.CLEAN,
        ["lazy_optimisation", "library_work"],
    ),
    "small_operators_take_as_long_as_launches": (
        beside_products(2, 60, 0, reference_us=0.1, operators=6),
        "triton",
        Label.CLEAN,
        ["lazy_optimisation", "library_work"],
    ),
    "narrow_products_behind_a_sum": (
        narrowed(),
        "triton",
        Label.SUSPECT,
        ["precision_downgrade"],
    ),
    "a_faint_product_left_out": (
        narrowed(format="left out", parts="result"),
        "triton",
        Label.SUSPECT,
        ["ignores_weights"],
    ),
    "a_term_that_is_lost_in_rounding": (
        narrowed(format="left out", parts="result", found=False, calls=0),
        "triton",
        Label.CLEAN,
        ["degenerate_problem"],
    ),
    "products_in_full": (narrowed(found=False, share=0.01), "triton", Label.CLEAN, []),
    "narrow_products_of_a_wrong_answer": (
        replace(INCORRECT, narrow_products=narrowed().narrow_products),
        "triton",
        Label.CLEAN,
        [],
    ),
}
