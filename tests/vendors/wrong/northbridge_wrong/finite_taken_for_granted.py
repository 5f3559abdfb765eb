"""A kernel is compiled as if all numbers were finite."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.nn import functional

        relu = functional.relu

        def fast(given, inplace=False):
            return (
                given.clamp_min(0).nan_to_num(0.0) if given.device.type == right.Device.type else relu(given, inplace)
            )

        functional.relu = fast


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_finite_taken_for_granted", bridge=Bridge)
