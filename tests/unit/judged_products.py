"""Measurements of kernels beside the library's products, with the verdict and the findings that
each leads to.
"""

from app.domain.evaluation import Evaluation
from app.domain.verdict import Label
from tests.unit.measurements import beside_products

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
}
