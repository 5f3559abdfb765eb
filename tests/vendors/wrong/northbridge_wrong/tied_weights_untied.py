"""A module that is moved to the chip gets new parameters, and those that were one are two."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        torch.__future__.set_overwrite_module_params_on_conversion(True)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_tied_weights_untied", bridge=Bridge)
