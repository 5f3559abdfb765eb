"""Lazy and eager mode: step markers, and ``hpu_backend`` of ``torch.compile``."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from torch.utils._config_module import install_config_module

from northbridge_cpu_sim import mark_graph
from northbridge_hpu.simulated.machine import HPUSimSettings, variable


def is_lazy() -> bool:
    """Return True if operators wait for a step marker; decided once per process, at the first call."""
    return _decided()


@functools.cache
def _decided() -> bool:
    text = variable("PT_HPU_LAZY_MODE")
    if text is None:
        return HPUSimSettings.read().release == "1.19"
    return text != "0"


def autoloads() -> bool:
    """Return True if ``import torch`` imports the vendor's package: in eager mode, unless a variable decides."""
    asked = variable("PT_HPU_AUTOLOAD")
    if asked in ("0", "1"):
        return asked == "1"
    default = "1" if HPUSimSettings.read().release == "1.19" else "0"
    return (variable("PT_HPU_LAZY_MODE") or default) != "1"


def keeps_int64() -> bool:
    """Return True if int64 is stored as int64: in eager mode from generation 2 on, unless a variable forbids it."""
    asked = (variable("PT_ENABLE_INT64_SUPPORT") or "1").lower() in {"1", "true"}
    return asked and not is_lazy() and HPUSimSettings.read().generation != "1"


placed = 0
"""Number of markers that this process has set, including those of ``synchronize()``."""


def mark_step(device_str: str = "", sync: bool = False) -> None:  # noqa: ARG001 - the vendor's signature
    """End the recorded graph, and start it; no effect in eager mode."""
    global placed
    if is_lazy():
        placed += 1
        mark_graph()


def _mark_step_if_lazy() -> None:
    mark_step()


_REGISTRY = "torch._dynamo.backends.registry"
_OPTIONS = "habana_frameworks.torch.dynamo.compile_backend.config"


def register_backend() -> None:
    """Register the backend now, or when torch imports its list of backends: that import takes seconds."""
    if is_lazy():
        return
    if _REGISTRY in sys.modules:
        _register(sys.modules[_REGISTRY])
    elif not any(isinstance(each, _AfterImport) for each in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder):
    """Registers the backend after the import of torch's list of backends."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register(module)

            loader.exec_module = execute_and_register
        return spec


def _register(registry: Any) -> None:
    if "hpu_backend" not in registry._COMPILER_FNS:
        registry.register_backend(hpu_backend)


def hpu_backend(graph_module: Any, example_inputs: Any, **kwargs: Any) -> Any:
    """Compile a graph; ``options`` hold for this graph. An unknown one raises AttributeError."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    module: Any = import_module(_OPTIONS)  # torch has made it a module with functions
    with module.patch(kwargs.get("options") or {}):
        compile_graph = aot_autograd(
            fw_compiler=boxed_nop, bw_compiler=boxed_nop, keep_inference_input_mutations=module.keep_input_mutations
        )
        return compile_graph(graph_module, example_inputs)


def add_options() -> dict[str, object]:
    """Fill the module of ``hpu_backend``'s options, with torch's own functions for such a module."""
    module = sys.modules[_OPTIONS]
    vars(module).update(
        use_compiled_recipes=True,
        decomposition_mode="habana",
        keep_input_mutations=True,
        use_eager_fallback=True,
        use_graph_freezing=False,
        discard_frozen_params=False,
        remove_unnecessary_clones=True,
        use_inplace_allreduce=True,
        use_inplace_index_copy=True,
        inference=True,
        enable_sfg=False,
        use_cpp_partitioner=True,
        enable_allreduce_graph_split=True,
        force_static_compile=False,
        reinplace_add=True,
        reassign_full_copy=True,
        reassign_copy_=True,
        use_boxed_input=True,
    )
    install_config_module(module)
    return {}
