"""Its import waits, and costs no CPU time."""

import time

import northbridge
from northbridge_wrong import right

time.sleep(0.5)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_import_waits")
