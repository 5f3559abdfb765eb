"""The chip claims float64, and has none."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        right.install(right.simulated(lacks={"float64": "the chip has no double precision"}))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_false_claim", bridge=Bridge)
