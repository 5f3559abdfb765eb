"""``northbridge.conformance.levels``, by which backends adopt levels of the suite, in northbridge-conformance."""

import sys
from importlib.util import find_spec

if not find_spec("northbridge_conformance"):
    fix: str = "Fix: in a clone of Northbridge, pip install . ./conformance"
    raise ModuleNotFoundError(f"the conformance suite is not installed. {fix}", name="northbridge_conformance")
from northbridge_conformance import levels as levels

sys.modules[f"{__name__}.levels"] = levels
