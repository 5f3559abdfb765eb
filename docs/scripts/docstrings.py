"""Prepare docstrings for the API reference: roles become links, and classes made by a table get the table's text."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import griffe

from northbridge.capabilities import Capabilities
from northbridge.lightning.classes import COMBINATIONS
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.levels import LEVELS

_ROLE = re.compile(r":(?:class|func|meth|attr|data|mod):`([\w.]+)`")


def _describe_classes() -> dict[str, str]:
    texts = {}
    for namespace in NAMESPACES.values():
        for row in (each for each in COMBINATIONS if namespace.host in each.hosts):
            stock = f"\n\nDerives from `{namespace.name}.{row.module}.{row.stock}`." if row.module else ""
            texts[f"{namespace.home}.{row.name}"] = f"{inspect.getdoc(row.mixins[-1])}{stock}"
    for name, level in LEVELS.items():
        tests = ", ".join(f"`{each.__name__.removesuffix('Tests')}`" for each in level.classes)
        texts[f"northbridge_conformance.levels.{name}"] = f"{level.title}: {tests}."
    return texts


_TEXTS = _describe_classes()
_CLAIMS = {each.name: each.metadata["meaning"] for each in fields(Capabilities) if "meaning" in each.metadata}


class Docstrings(griffe.Extension):
    """Change docstrings between reading and rendering."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Complete and translate the docstring of one module, class, function or attribute."""
        if obj.path in _TEXTS and isinstance(obj, griffe.Attribute):
            obj.value = None  # which only says where the table keeps it
        text = _TEXTS.get(obj.path) or (obj.docstring.value if obj.docstring is not None else "")
        if obj.is_attribute and obj.parent is not None and obj.parent.path == "northbridge.capabilities.Capabilities":
            text = "\n\n".join(filter(None, (f"The claim: {_CLAIMS[obj.name]}." if obj.name in _CLAIMS else "", text)))
        text = re.sub("::$", ":", text, flags=re.MULTILINE)  # before a block of code
        if text:
            obj.docstring = griffe.Docstring(_ROLE.sub(lambda found: _link(found[1], obj), text), parent=obj)


def _link(name: str, obj: griffe.Object) -> str:
    """Return a link of mkdocs-autorefs, which is plain code where the reference does not show ``name``."""
    inside = obj if obj.is_class else obj.parent
    is_member = inside is not None and name in inside.members
    home = inside.path if inside is not None and is_member else "northbridge"
    target = name if name.startswith("northbridge.") else f"{home}.{name}"
    return f'<autoref optional identifier="{target}"><code>{name}</code></autoref>'
