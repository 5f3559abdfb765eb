"""``hpu_backend`` of ``torch.compile``: there in eager mode, from the moment at which torch imports its compiler.

The graph is captured, and split into forward and backward, as by the vendor's. No code is generated: the card computes
the graph operator by operator.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from northbridge_hpu.simulated.mode import is_lazy

_REGISTRY = "torch._dynamo.backends.registry"


def register() -> None:
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
        """Find the module as without this finder, and let its import end with the registration."""
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = _then_register(loader.exec_module)
        return spec


def _then_register(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        execute(module)
        _register(module)

    return exec_module


def _register(registry: Any) -> None:
    if "hpu_backend" not in registry._COMPILER_FNS:
        registry.register_backend(hpu_backend)


def hpu_backend(graph_module: Any, example_inputs: Any, **kwargs: Any) -> Any:
    """Compile a graph; ``options`` hold for this graph. An unknown one raises AttributeError."""
    import habana_frameworks.torch.dynamo.compile_backend.config as config
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    module: Any = config  # torch has made it a module with functions
    with module.patch(kwargs.get("options") or {}):
        compile_graph = aot_autograd(
            fw_compiler=boxed_nop, bw_compiler=boxed_nop, keep_inference_input_mutations=module.keep_input_mutations
        )
        return compile_graph(graph_module, example_inputs)
