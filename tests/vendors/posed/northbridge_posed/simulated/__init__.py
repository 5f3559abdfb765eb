from __future__ import annotations

from pathlib import Path

import northbridge


@northbridge.hookimpl
def northbridge_personality() -> northbridge.Personality:
    return northbridge.Personality({"torch_posed": Path(__file__).with_name("torch_posed")})
