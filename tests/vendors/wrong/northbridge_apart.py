"""A wrong chip beside others in one job: its ranks keep their own weights where all ranks' are made rank 0's."""

from __future__ import annotations

from typing import Any

import northbridge
import northbridge_right as right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        right.replace(("northbridge.lightning.strategies.replicas.write",), self._keep)

    @staticmethod
    def _keep(*_: Any) -> None:
        """Write nothing."""


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("apart", Bridge=Bridge)
