"""A report's facts about a backend and its software, as far as this machine has them."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

DISTRIBUTIONS = ("torch", "lightning", "pytorch-lightning", "lightning-fabric", "torchmetrics", "pytest")
"""The distributions that are reported in addition to those that the backend's contract names."""


def answer(name: str) -> dict[str, object]:
    """Return the facts and claims of the backend ``name``, corrected by its cards, and its loading error, if any."""
    import northbridge
    from northbridge.contract import contract_of, version_of

    backend = northbridge.get(name)
    contract: Any = contract_of(backend)
    capabilities, problem, devices, label = backend.capabilities, "", 0, ""
    try:
        northbridge.load(name)
        capabilities = backend.present_capabilities()
        devices = backend.device.count()
        label = backend.device.label(0) if devices else ""
    except Exception as error:  # noqa: BLE001 - told in the report
        problem = f"{type(error).__name__}: {error}"
    distributions = (*DISTRIBUTIONS, *(contract.distributions if contract else ()))
    versions = {each: found for each in distributions if (found := version_of(each))}
    return {
        "backend": {
            "api": backend.api,
            "device": backend.device.type,
            "collective": backend.collective.name,
            "simulated": capabilities.simulated,
            "devices": devices,
            "label": label,
            "problem": problem,
        },
        "capabilities": asdict(capabilities),
        "versions": {"python": platform.python_version(), **versions},
        "variables": [each.name for each in contract.symbols if each.kind == "environment"] if contract else [],
    }
