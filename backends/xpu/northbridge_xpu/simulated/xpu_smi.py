"""Intel's command, as far as it is asked here: ``xpu-smi discovery -j``."""

from __future__ import annotations

import json
import sys
import uuid

from northbridge_xpu.simulated import machine


def cards() -> list[dict[str, object]]:
    """Return the rows of the cards, whatever the hierarchy and the mask are."""
    return [
        {
            "device_id": card,
            "device_name": machine.tile().label,
            "device_type": "GPU",
            "pci_bdf_address": f"0000:{0x18 + card:02x}:00.0",
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"card {card}")),
            "vendor_name": "Intel(R) Corporation",
        }
        for card in range(machine.card_count())
    ]


if __name__ == "__main__":
    if sys.argv[1:] != ["discovery", "-j"]:
        sys.exit("the simulated xpu-smi has no command but: discovery -j")
    print(json.dumps({"device_list": cards()}))
