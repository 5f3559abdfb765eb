"""Vendors' names for Lightning's PyTorchProfiler."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.vendor_names.names import VendorName


class ProfilerName(VendorName):
    """A vendor's name for Lightning's PyTorchProfiler, such as ``AcmeProfiler()``, with its arguments and defaults."""

    kind = "PyTorchProfiler"
    homes: ClassVar[frozenset[str]] = frozenset(
        f"{namespace.name}.profilers.pytorch" for namespace in NAMESPACES.values()
    )

    # The order of vendors' profilers, which lack Lightning's emit_nvtx: it is CUDA's.
    positional: ClassVar[tuple[str, ...]] = (
        "dirpath",
        "filename",
        "group_by_input_shapes",
        "export_to_chrome",
        "row_limit",
        "sort_by_key",
        "record_module_names",
    )

    defaults: ClassVar[Mapping[str, Any]] = {"record_module_names": False}
    """The arguments whose default differs from Lightning's."""

    @classmethod
    def passed_on(cls) -> Collection[str]:
        import torch.profiler

        of_lightning = ("table_kwargs", "export_to_flame_graph", "metric")
        return (*of_lightning, *list(inspect.signature(torch.profiler.profile.__init__).parameters)[1:])

    def settle(self, namespace: Namespace) -> Any:
        """Become the PyTorchProfiler of ``namespace``. Raises Lightning's error for a bad value."""
        return self.become(self.make_draft(namespace))

    def make_draft(self, namespace: Namespace) -> Any:
        return namespace.module("profilers").PyTorchProfiler(**{**self.defaults, **self.arguments})
