"""Hide the distributions in HIDDEN_DISTRIBUTIONS: a page shows what those see who have not installed them.

Python imports this module when it starts, if the folder is in PYTHONPATH.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, DistributionFinder

HIDDEN = os.environ.get("HIDDEN_DISTRIBUTIONS", "").split()

_find = PathFinder.find_distributions


def find_distributions(context: DistributionFinder.Context = DistributionFinder.Context()) -> Iterator[Distribution]:  # noqa: B008 - importlib's
    """Return the distributions that the original function finds, without hidden ones."""
    return (each for each in _find(context) if each.metadata["Name"] not in HIDDEN)


if HIDDEN:
    PathFinder.find_distributions = find_distributions  # type: ignore[method-assign, assignment]
