"""A plugin whose hook raises."""

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    raise OSError("/etc/acme.conf is not readable")
