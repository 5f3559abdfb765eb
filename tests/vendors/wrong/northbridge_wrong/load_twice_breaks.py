"""A second call of load() puts the chip into torch once more."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        import northbridge_cpu_sim

        northbridge_cpu_sim.install(right.simulated())


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_load_twice_breaks", bridge=Bridge)
