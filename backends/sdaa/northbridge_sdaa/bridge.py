"""Loading of the vendor's software."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from importlib.util import find_spec

import northbridge
from northbridge_sdaa.cards import Table, standing
from northbridge_sdaa.settings import SDAASettings


class SDAABridge(northbridge.Bridge):
    """Loads ``torch_sdaa``, whether it renames torch's spare device type or torch has a type for the chip."""

    package = "torch_sdaa"
    compile_backend = "teco_inductor"

    def check_count(self, count: int) -> None:
        if find_spec("torch_sdaa") is not None:
            SDAASettings.read().reject_absent(count)

    def check_environment(self) -> None:
        SDAASettings.read().reject_migration()

    def load(self) -> None:
        import torch_sdaa  # noqa: F401 - it makes sdaa a device of torch

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:
        table = standing()
        return None if table is None else table.count_cards(devices, total)

    def describe_machine(self) -> dict[str, object]:
        table = Table.read()
        if table is None:
            return {"cards": "unknown: teco-smi is not installed"}
        cards: object = f"{len(table.buses)}, by their places on the bus" if table.rows else "unknown: no row is known"
        return {
            **table.versions,
            "cards": cards,
            "teco-smi": [asdict(row) for row in table.rows],
            "processes": table.processes,
        }
