"""Faults in the claims about single operators."""

from northbridge import Within, no
from northbridge_right import move_results, wrong

DENIED = {"erfinv": no("it has no table for it")}


@wrong("C1/Operations/test_result_and_gradient_match_the_cpu[erfinv]", operators=DENIED)
def denied_operator_works():
    """An operator is denied, and works."""


@wrong("C1/Operations/test_result_and_gradient_match_the_cpu[erfinv]", operators=DENIED)
def denied_operator_returns():
    """A denied operator returns wrong numbers instead of raising."""
    move_results(0.1, "erfinv")


@wrong(
    "C1/Operations/test_result_and_gradient_match_the_cpu[asin]",
    operators={"asin": Within(3e-4, "its table has 12 bits")},
)
def operator_beyond_its_bound():
    """A loosened operator is further off than its bound."""
    move_results(5e-4, "asin")
