"""What a vendor's name answers with before a Trainer or a Fabric gets it: the object that it would become."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from northbridge.lightning.namespaces import NAMESPACES, Namespace


class Drafted(Protocol):
    """A vendor's name."""

    def make_draft(self, namespace: Namespace) -> Any:
        """Make the object of ``namespace``, with what is known before a run: its arguments and the chip."""


def draft_of(name: Drafted) -> Any:
    """Return the object that ``name`` would become now. It is made once; that loads the chip, and acquires no card."""
    if name not in _drafts:
        _drafts[name] = name.make_draft(namespace_at_hand())
    return _drafts[name]


def drop_draft(name: Drafted) -> Any | None:
    """Forget the draft of ``name``, and return it; None if nothing has been asked."""
    return _drafts.pop(name, None)


# Not attributes of the names, which may be copied, pickled, or sent to a rank.
_drafts: WeakKeyDictionary[Drafted, Any] = WeakKeyDictionary()


def namespace_at_hand() -> Namespace:
    """Return a namespace that this process has imported, or else one that is installed; those of a Trainer first."""
    by_preference = sorted(NAMESPACES.values(), key=lambda namespace: not namespace.is_trainer)
    imported = [each for each in by_preference if each.name in sys.modules]
    installed = (each for each in by_preference if find_spec(each.name.partition(".")[0]) is not None)
    return imported[0] if imported else next(installed, by_preference[0])
