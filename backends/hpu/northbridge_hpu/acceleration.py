"""What a Gaudi offers beyond torch's own operators."""

from __future__ import annotations

from collections.abc import Mapping

import northbridge


class HPUAcceleration(northbridge.Acceleration):
    """The vendor's counts of compiled graphs."""

    def compilations(self) -> Mapping[str, float]:
        """Return the totals of the vendor's metrics; of recipe_cache, only with ``PT_HPU_ENABLE_CACHE_METRICS``."""
        from habana_frameworks.torch.hpu import metrics

        totals: dict[str, float] = {}
        for name, statistics in _TOTALS.items():
            metric = metrics.metric_global(name)
            if metric is not None:
                found = dict(metric.stats())
                totals |= {name + ending: float(found[total]) for total, ending in statistics.items()}
        return totals


_TOTALS = {
    "graph_compilation": {"TotalNumber": ""},
    "cpu_fallback": {"TotalNumber": ""},
    "memory_defragmentation": {"TotalNumber": ""},
    "recipe_cache": {"TotalHit": " hits", "TotalMiss": " misses"},
}
"""The totals of each metric of the vendor's, and how their names here end."""
