"""A plugin whose hook returns something else than a Backend."""

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> dict[str, str]:
    return {"name": "hook_returns_dict"}
