"""The scaler looks at the first gradient alone."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        unscale = torch._amp_foreach_non_finite_check_and_unscale_

        def first_alone(gradients, found, scale):
            if gradients[0].device.type != right.Device.type:
                return unscale(gradients, found, scale)
            if len(gradients) > 1:
                unscale(gradients[1:], found.clone(), scale)
            return unscale(gradients[:1], found, scale)

        torch._amp_foreach_non_finite_check_and_unscale_ = first_alone


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_overflow_of_the_first_alone", bridge=Bridge)
