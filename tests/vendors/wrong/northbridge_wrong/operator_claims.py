"""Faults in the claims about single operators."""

from functools import partial

import northbridge
import northbridge_right as right


def announce(fault, off, **operators):
    """Announce a backend that claims ``operators``, each of which is ``off`` by so much."""
    spoil = partial(right.move_results, off, *operators)
    bridge = partial(right.Spoilt, spoil)
    right.announce(fault.__name__, bridge=bridge, claims=right.capabilities(operators=operators))


@right.caught_by("C1/Operations/test_result_and_gradient_match_the_cpu[erfinv]")
def denied_operator_works():
    """An operator is denied, and works."""


@right.caught_by("C1/Operations/test_result_and_gradient_match_the_cpu[erfinv]")
def denied_operator_returns():
    """A denied operator returns wrong numbers instead of raising."""


@right.caught_by("C1/Operations/test_result_and_gradient_match_the_cpu[asin]")
def operator_beyond_its_bound():
    """A loosened operator is further off than its bound."""


announce(denied_operator_works, 0, erfinv=northbridge.no("it has no table for it"))
announce(denied_operator_returns, 0.1, erfinv=northbridge.no("it has no table for it"))
announce(operator_beyond_its_bound, 5e-4, asin=northbridge.Within(3e-4, "its table has 12 bits"))
