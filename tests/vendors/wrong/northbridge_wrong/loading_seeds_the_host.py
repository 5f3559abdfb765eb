"""To load the software seeds the host's generators."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import random

        import torch

        torch.default_generator.manual_seed(0)
        random.seed(0)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_loading_seeds_the_host", bridge=Bridge)
