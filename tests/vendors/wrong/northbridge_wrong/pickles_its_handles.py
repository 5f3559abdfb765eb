"""The bridge keeps the driver open, and takes the handle along when it is pickled."""

import os

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def __init__(self) -> None:
        self.driver = open(os.devnull)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_pickles_its_handles", bridge=Bridge)
