"""What a Gaudi offers beyond torch's own operators."""

from __future__ import annotations

import northbridge
from northbridge_hpu.settings import HPUSettings


class HPUAcceleration(northbridge.Acceleration):
    """The vendor's graphs."""

    def graph(self) -> northbridge.Graph:
        """Return an ``HPUGraph``, which exists in lazy mode alone.

        Raises :class:`northbridge.UnsupportedError` in eager mode, and in a run of several ranks whose collectives are
        not lazy: the vendor's software cannot capture them.
        """
        from habana_frameworks.torch.utils.internal import is_lazy

        if not is_lazy():
            raise northbridge.UnsupportedError(
                f"HPU graphs: {NO_GRAPHS_IN_EAGER_MODE}. Fix: set PT_HPU_LAZY_MODE=1", capability="graphs"
            )
        if _ranks() > 1 and not HPUSettings.read().pt_hpu_enable_lazy_collectives:
            raise northbridge.UnsupportedError(
                f"HPU graphs in a run of {_ranks()} ranks need lazy collectives, and PT_HPU_ENABLE_LAZY_COLLECTIVES is"
                " not set. Fix: set PT_HPU_ENABLE_LAZY_COLLECTIVES=true",
                capability="graphs",
            )
        from habana_frameworks.torch.hpu.graphs import HPUGraph

        graph: northbridge.Graph = HPUGraph()
        return graph


NO_GRAPHS_IN_EAGER_MODE = "the vendor's graphs need lazy mode, and this is eager mode"


def _ranks() -> int:
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
