"""The float8 precision, in a form for every namespace of Lightning."""

from __future__ import annotations

from typing import Any

from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.float8 import Skip, check_skip
from northbridge.lightning.vendor_names.names import _HOMES, VendorName


class Float8Precision(VendorName):
    """Train linear layers in float8: ``Trainer(plugins=northbridge.Float8Precision())``.

    Of no namespace until a Trainer or a Fabric gets it. ``engine`` is one of the chip's, by default its first;
    ``recipe`` is the engine's; ``skip`` names layers that stay as they are, by names, patterns, or a function of a
    layer's name and the layer. Raises :class:`ArgumentsError` if ``skip`` is neither.
    """

    kind = "Float8Precision"

    def __init__(self, engine: str | None = None, recipe: Any = None, skip: Skip = ()) -> None:
        self.arguments = {"engine": engine, "recipe": recipe, "skip": check_skip(skip)}

    @classmethod
    def stands_for(cls, base: type) -> bool:
        return base.__name__ == cls.kind and base.__module__ in _HOMES

    def settle(self, namespace: Namespace) -> Any:
        """Become the precision plugin of ``namespace``."""
        return self.become(classes(namespace).float8_precision(**self.arguments))
