"""The simulated Gaudi passes the suite that every chip must pass, eager; where training is concerned, lazy too."""

from __future__ import annotations

from tests.backends.posed.suite import *  # noqa: F403 - each of its classes is one of this module
