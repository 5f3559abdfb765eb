"""A variable that the user has set is replaced where there are several ranks."""

import os

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def prepare_rank(self, *, index: int, local_rank: int, world_size: int) -> None:
        if world_size > 1:
            os.environ["FAIRCHIP_QUEUES"] = "4"


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_environment_overwritten_in_ranks", bridge=Bridge)
