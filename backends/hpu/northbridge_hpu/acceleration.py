"""What the vendor's software offers beyond torch's own operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import northbridge
from northbridge_hpu.data import HabanaDataLoader, world_size
from northbridge_hpu.device import NO_GRAPHS_IN_EAGER_MODE, HPUDevice
from northbridge_hpu.float8 import TorchAO, TransformerEngine
from northbridge_hpu.settings import HPUSettings

if TYPE_CHECKING:
    import torch
    from torch.profiler import ProfilerActivity
    from torch.utils.data import Dataset

_SUBJECT = "hpu"

_TOTALS = {
    "graph_compilation": {"TotalNumber": ""},
    "cpu_fallback": {"TotalNumber": ""},
    "memory_defragmentation": {"TotalNumber": ""},
    "recipe_cache": {"TotalHit": " hits", "TotalMiss": " misses"},
}
"""The totals of each metric of the vendor's, and how their names here end."""


class HPUAcceleration(northbridge.Acceleration):
    """The extensions in ``habana_frameworks.torch``. A name that a release lacks is recorded, and torch's is used."""

    deepspeed_accelerator: str | None = "hpu"

    def __init__(self) -> None:
        self._clips: dict[tuple[float, torch.dtype], Any] = {}

    def image_loader(self, dataset: Dataset[Any], **options: Any) -> Iterable[Any]:
        """Return a :class:`HabanaDataLoader`. On the first generation, the options that aeon needs are the default."""
        aeon = {"num_workers": 8, "pin_memory": True} if HPUDevice().generation == 1 else {}
        return HabanaDataLoader(dataset=dataset, **{**aeon, **options})

    def graph(self) -> northbridge.Graph:
        """Return an ``HPUGraph``, which exists in lazy mode alone.

        Raises :class:`northbridge.UnsupportedError` in eager mode, and in a run of several ranks whose collectives are
        not lazy: the vendor's software cannot capture them.
        """
        from habana_frameworks.torch.utils.internal import is_lazy

        if not is_lazy():
            raise northbridge.UnsupportedError(
                f"{NO_GRAPHS_IN_EAGER_MODE}. Fix: set PT_HPU_LAZY_MODE=1", capability="graphs"
            )
        if world_size() > 1 and not HPUSettings.read().pt_hpu_enable_lazy_collectives:
            raise northbridge.UnsupportedError(
                f"HPU graphs in a run of {world_size()} ranks need lazy collectives. Fix: set"
                " PT_HPU_ENABLE_LAZY_COLLECTIVES=true",
                capability="graphs",
            )
        from habana_frameworks.torch.hpu.graphs import HPUGraph

        graph: northbridge.Graph = HPUGraph()
        return graph

    def float8_engines(self) -> Mapping[str, northbridge.Float8Engine]:
        return {"transformer-engine": TransformerEngine(), "torchao": TorchAO()}

    def fused_optimizers(self) -> Mapping[type[torch.optim.Optimizer], type[torch.optim.Optimizer]]:
        import torch

        try:
            from habana_frameworks.torch.hpex.optimizers import FusedAdamW, FusedSGD
        except ImportError as error:
            northbridge.note(_SUBJECT, "no fused optimizers", f"the vendor's software has none: {error}")
            return {}
        return {torch.optim.AdamW: FusedAdamW, torch.optim.SGD: FusedSGD}

    def clip_grad_norm(self, parameters: Iterable[torch.nn.Parameter], max_norm: float) -> torch.Tensor:
        parameters = [each for each in parameters if each.grad is not None]
        dtypes = {each.dtype for each in parameters}
        if len(dtypes) != 1:  # the vendor's class computes in one, that of the first
            return super().clip_grad_norm(parameters, max_norm)
        (dtype,) = dtypes
        if (max_norm, dtype) not in self._clips:
            try:
                from habana_frameworks.torch.hpex.normalization import FusedClipNorm
            except ImportError as error:
                northbridge.note(_SUBJECT, "torch clips gradients", f"the vendor's software has no clip: {error}")
                return super().clip_grad_norm(parameters, max_norm)
            self._clips = {(max_norm, dtype): FusedClipNorm(parameters, max_norm)}
        total: torch.Tensor = self._clips[max_norm, dtype].clip_norm(parameters)
        return total.reshape(())

    def profiler_activity(self) -> ProfilerActivity:
        HPUSettings.read().reject_other_profiles()
        import torch.profiler

        activities: Any = torch.profiler.ProfilerActivity  # the vendor's, which torch does not count as supported
        activity: ProfilerActivity = activities.HPU
        return activity

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

    def compile_options(self) -> Mapping[str, Any]:
        try:
            import habana_frameworks.torch.dynamo.compile_backend.config as options
        except ImportError as error:
            northbridge.note(
                _SUBJECT, "options of hpu_backend unchecked", f"the vendor's software has no list: {error}"
            )
            return {}
        module: Any = options  # torch has given it functions
        return dict(module.get_config_copy())
