"""``northbridge.conformance.levels``, by which backends adopt levels of the suite, in northbridge-conformance."""

import sys
from importlib.util import find_spec

from northbridge.discovery.installed import NO_SUITE

if not find_spec("northbridge_conformance"):
    raise ModuleNotFoundError(NO_SUITE, name="northbridge_conformance")
from northbridge_conformance import levels as levels

sys.modules[f"{__name__}.levels"] = levels
