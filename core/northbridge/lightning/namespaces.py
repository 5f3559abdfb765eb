"""Lightning's four namespaces, and the names of their parts."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar


@dataclass(frozen=True)
class Namespace:
    """One namespace of Lightning: a Trainer's or a Fabric's.

    The two distributions contain the same sources under two names, and may differ in version. Strings name modules, so
    that describing a namespace imports nothing.
    """

    name: str
    """Name of the namespace, and of the module with its public names."""

    fabric: str
    """The namespace of the Fabric that this namespace is built on; for a Fabric, its own name."""

    distributions: tuple[str, ...]
    """Distributions that contain it, the likeliest first."""

    @property
    def home(self) -> str:
        """Our module with the classes of this namespace, named after the last word of the namespace's name."""
        return f"{__package__}.{self.name.rpartition('.')[2]}"

    @property
    def is_trainer(self) -> bool:
        """True if this namespace has a Trainer; otherwise it has a Fabric."""
        return self.name != self.fabric

    @property
    def host(self) -> str:
        """Name of the class that users of this namespace build: ``Trainer`` or ``Fabric``."""
        return "Trainer" if self.is_trainer else "Fabric"

    @property
    def version(self) -> str:
        """The version of Lightning behind this namespace; imports it."""
        package = self.name if self.name.startswith(("pytorch_", "lightning_")) else "lightning"
        return str(import_module(package).__version__)

    @property
    def connector(self) -> Any:
        """The module with the connector, which turns a user's arguments into accelerator, strategy and precision."""
        inner = "trainer.connectors.accelerator_connector" if self.is_trainer else "connector"
        return self.module(inner)

    @property
    def connector_class(self) -> str:
        """Name of the connector's class."""
        return "_AcceleratorConnector" if self.is_trainer else "_Connector"

    @property
    def accelerator_registry(self) -> Any:
        """The registry behind ``accelerator="name"``."""
        registry = "AcceleratorRegistry" if self.is_trainer else "ACCELERATOR_REGISTRY"
        return getattr(self.module("accelerators"), registry)

    @property
    def strategy_registry(self) -> Any:
        """The registry behind ``strategy="name"``."""
        registry = "StrategyRegistry" if self.is_trainer else "STRATEGY_REGISTRY"
        return getattr(self.module("strategies"), registry)

    @property
    def precision_flag(self) -> str:
        """The connector's attribute that holds the user's ``precision=``."""
        return "_precision_flag" if self.is_trainer else "_precision_input"

    @property
    def precision_object(self) -> str:
        """The connector's attribute that holds the user's own precision plugin."""
        return "_precision_plugin_flag" if self.is_trainer else "_precision_instance"

    def owner(self, accelerator: object) -> Any | None:
        """Return the class that is registered under the name ``accelerator``; None if the name is unknown."""
        registry = self.accelerator_registry
        known = isinstance(accelerator, str) and accelerator in registry
        return registry[accelerator]["accelerator"] if known else None

    def module(self, inner: str) -> Any:
        """Import a module of this namespace."""
        return import_module(f"{self.name}.{inner}")

    def fabric_module(self, inner: str) -> Any:
        """Import a module of the Fabric below this namespace."""
        return import_module(f"{self.fabric}.{inner}")


NAMESPACES = {
    namespace.name: namespace
    for namespace in (
        Namespace("lightning.pytorch", "lightning.fabric", ("lightning",)),
        Namespace("lightning.fabric", "lightning.fabric", ("lightning",)),
        Namespace("pytorch_lightning", "lightning_fabric", ("pytorch-lightning",)),
        Namespace("lightning_fabric", "lightning_fabric", ("pytorch-lightning", "lightning-fabric")),
    )
}
"""Every namespace by its name."""


@dataclass(frozen=True)
class Classes:
    """Our classes of one namespace. Typed ``Any``, because each derives from a class of that namespace's Lightning."""

    accelerator: Any
    single_device: Any
    ddp: Any
    mixed_ddp: Any
    model_parallel: Any
    fsdp: Any
    fsdp_precision: Any
    deepspeed: Any
    checkpoint_io: Any
    script_launcher: Any
    launcher: Any
    weights_agreement: Any
    float8_precision: Any
    float8_inference: Any
    mpiexec_environment: Any
    layer_sync: Any = None
    """None for a Fabric."""

    captured_step: Any = None
    """None for a Fabric."""

    recompilation_monitor: Any = None
    """None for a Fabric."""

    snapshots: Any = None
    """None for a Fabric, which has northbridge.Snapshots."""

    @property
    def strategies(self) -> tuple[Any, ...]:
        """Every strategy. Lightning's DeepSpeedStrategy derives from its DDPStrategy, and so comes first."""
        return self.deepspeed, self.single_device, self.ddp, self.model_parallel, self.fsdp


Stock: Any = ABC
"""Base of the mixins. To a type checker it has all attributes of the stock class that a mixin is combined with."""


class _NamespaceMixin(Stock):  # type: ignore[misc]  # the stock class is known only at run time
    """Base of the classes that ``classes.py`` combines with a stock class of each namespace.

    It derives from ABC and has no ``__slots__``, like Lightning's classes. Python lets an object change its class only
    if the memory layouts of both classes have the same root.
    """

    namespace: ClassVar[Namespace]
    """The namespace of the combined class."""

    stock_class: ClassVar[Any]
    """Lightning's class below the mixins."""

    siblings: ClassVar[Classes]
    """All combined classes of that namespace."""
