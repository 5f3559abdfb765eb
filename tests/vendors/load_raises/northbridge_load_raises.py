"""A plugin whose software fails to load, as one built for another torch does."""

from __future__ import annotations

import northbridge


class Card(northbridge.Device):
    type = "load_raises"


class CCL(northbridge.Collective):
    name = "load_raises_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        raise OSError("libacme.so.3: undefined symbol: _ZN2at4meltE")


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("load_raises", Card(), CCL(), Software())
