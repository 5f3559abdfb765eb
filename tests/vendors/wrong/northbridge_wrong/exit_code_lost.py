"""The vendor's software ends the process at exit, and says that all went well."""

import atexit
import os

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        atexit.register(os._exit, 0)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_exit_code_lost", bridge=Bridge)
