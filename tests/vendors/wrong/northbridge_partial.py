"""A chip that lacks one operator and computes another less exactly, and says so: it is right."""

import northbridge
import northbridge_right as right


class Bridge(right.Bridge):
    def load(self) -> None:
        right.install(right.simulated(lacks_operations={"aten::erfinv": "it has no table for it"}))
        right.move_results(2e-4, "asin")


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    said = {
        "erfinv": northbridge.no("it has no table for it"),
        "asin": northbridge.Within(3e-4, "its table has 12 bits"),
    }
    return right.backend("partial", Bridge=Bridge, claims=right.capabilities(operators=said))
