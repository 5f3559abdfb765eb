"""The names of ``habana_frameworks.torch.hpu.metrics``."""

from __future__ import annotations

from northbridge_hpu.simulated.metrics import (
    InvalidMetricDumpFileFormat as InvalidMetricDumpFileFormat,
    InvalidMetricDumpTrigger as InvalidMetricDumpTrigger,
    MetricNotFound as MetricNotFound,
    metric_global as metric_global,
    metric_localcontext as metric_localcontext,
)
from northbridge_hpu.simulated.metrics_files import metrics_dump as metrics_dump
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
