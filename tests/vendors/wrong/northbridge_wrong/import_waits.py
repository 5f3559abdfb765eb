"""Its import waits, and costs no CPU time."""

import time

import northbridge
from northbridge_right import backend

time.sleep(0.5)


@northbridge.hookimpl
def northbridge_backend():
    return backend("wrong_import_waits")
