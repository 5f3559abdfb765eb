"""A variable that the user has set is replaced."""

import os

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def prepare(self) -> None:
        os.environ["FAIRCHIP_QUEUES"] = "4"


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_environment_overwritten", bridge=Bridge)
