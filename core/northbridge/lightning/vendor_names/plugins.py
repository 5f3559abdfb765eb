"""Vendors' names for precisions, checkpoint plugins and the profiler."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch.profiler

from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load
from northbridge.errors import ArgumentValueError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.plugins.precision import FLOAT8, OF_FSDP, precision_plugin, reject_precision
from northbridge.lightning.vendor_names.names import VendorName


class PrecisionName(VendorName):
    """A vendor's name for a precision: ``AcmePrecision("bf16-mixed")`` means ``precision="bf16-mixed"``.

    The object itself does not change; the run gets Lightning's own plugin, on the chip's device. An object of a class
    that a user has derived becomes that plugin.
    """

    kind = "Precision"
    homes: ClassVar[frozenset[str]] = frozenset(
        f"{namespace.name}.plugins.precision.precision" for namespace in NAMESPACES.values()
    )
    positional: ClassVar[tuple[str, ...]] = ("precision", "device")

    words: ClassVar[Mapping[str, str]] = {
        "32": "32-true",
        "32-true": "32-true",
        "16": "16-mixed",
        "16-mixed": "16-mixed",
        "16-true": "16-true",
        "bf16": "bf16-mixed",
        "bf16-mixed": "bf16-mixed",
        "bf16-true": "bf16-true",
        "64": "64-true",
        "64-true": "64-true",
    }
    """The accepted values of ``precision``, each with Lightning's word for it. :attr:`precision` is that word, but
    the vendor's own for float8, such as "fp8", which scripts compare."""

    # With its parameters, which LightningCLI reads.
    def __init__(self, precision: str | int = "32-true", device: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(precision, device, *args, **kwargs)
        self.arguments.pop("device", None)
        if device is not None and device != (own := get(self.backend_name).device.type):
            raise ArgumentValueError(f"{type(self).__name__}(device={device!r}) is for {own!r}. Fix: omit it")
        word = str(precision)
        call = f"{type(self).__name__}(precision={word!r})"
        if word not in self.words:
            near = difflib.get_close_matches(word, self.words, n=1)
            hint = f". Did you mean {near[0]!r}?" if near else ""
            raise ArgumentValueError(f"{call} is not a precision; known: {', '.join(self.words)}{hint}")
        self.precision: str = word if self.words[word] == FLOAT8 else self.words[word]

    def plugin(self) -> Any | None:
        """Return the plugin of no namespace yet that the name means; None if :attr:`precision` says all."""
        return None

    def make_draft(self, namespace: Namespace) -> Any:
        return precision_plugin(namespace, load(get(self.backend_name)), self.words[self.precision])

    def answer(self, attribute: str) -> Any:
        return get(self.backend_name).device.type if attribute == "device" else super().answer(attribute)

    def __getattribute__(self, attribute: str) -> Any:
        # Lightning's classes are bases of this one, for LightningCLI. What they define, the draft answers.
        mine = object.__getattribute__(self, "__dict__")
        if attribute.startswith("__") or attribute in mine or "arguments" not in mine:
            return object.__getattribute__(self, attribute)
        owner = next((each for each in type(self).__mro__ if attribute in vars(each)), None)
        is_inherited = owner is not None and any(owner in kind.__mro__ for kind in PrecisionName.__bases__[1:])
        return self.answer(attribute) if is_inherited else object.__getattribute__(self, attribute)


class DeepSpeedPrecisionName(PrecisionName):
    """A vendor's name for the precision of a run with DeepSpeed; ``precision="bf16-mixed"`` means the same."""

    kind = "DeepSpeedPrecision"
    homes: ClassVar[frozenset[str]] = frozenset(
        f"{namespace.name}.plugins.precision.deepspeed" for namespace in NAMESPACES.values()
    )

    def make_draft(self, namespace: Namespace) -> Any:
        word = self.words[self.precision]
        reject_precision(load(get(self.backend_name)), word)
        return namespace.module("plugins").DeepSpeedPrecision(word)


class FSDPPrecisionName(PrecisionName):
    """A vendor's name for the precision of a run with FSDP; ``precision="bf16-mixed"`` means the same."""

    kind = "FSDPPrecision"
    homes: ClassVar[frozenset[str]] = VendorName.homes
    words: ClassVar[Mapping[str, str]] = {word: word for word in OF_FSDP}
    positional: ClassVar[tuple[str, ...]] = ("precision", "device", "recipe", "replace_layers")
    without_meaning: ClassVar[Mapping[str, str]] = dict.fromkeys(("recipe", "replace_layers"), "FSDP has no float8")

    def make_draft(self, namespace: Namespace) -> Any:
        backend = load(get(self.backend_name))
        reject_precision(backend, self.precision)
        plugin = classes(namespace).fsdp_precision(self.precision)
        plugin.bind(backend)
        return plugin


class CheckpointIOName(VendorName):
    """A vendor's name for the checkpoint plugin, such as ``AcmeCheckpointIO()``."""

    kind = "CheckpointIO"

    def make_draft(self, namespace: Namespace) -> Any:
        return classes(namespace).checkpoint_io()


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
        of_lightning = ("table_kwargs", "export_to_flame_graph", "metric")
        return (*of_lightning, *list(inspect.signature(torch.profiler.profile.__init__).parameters)[1:])

    def make_draft(self, namespace: Namespace) -> Any:
        return namespace.module("profilers").PyTorchProfiler(**{**self.defaults, **self.arguments})
