"""How a vendor's software has made its chip a device type of torch."""

from __future__ import annotations


def describe_device_type(name: str) -> str:
    """Return which of the two ways made ``name`` a device type in this process; it has to be one already.

    torch has one spare type, PrivateUse1, which a plugin renames; a torch that the vendor has built, or that knows the
    chip, has a type of its own for it.
    """
    if is_renamed(name):
        return f"torch's spare device type, PrivateUse1, renamed to {name!r}"
    return f"a device type of its own, {name!r}, in this torch"


def is_renamed(name: str) -> bool:
    """Whether ``name`` is torch's spare device type, renamed in this process."""
    import torch

    return bool(torch._C._get_privateuse1_backend_name() == name)
