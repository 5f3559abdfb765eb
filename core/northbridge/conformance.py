"""``northbridge.conformance.levels``, by which backends adopt levels of the suite, in northbridge-conformance."""

import sys

try:
    from northbridge_conformance import levels
except ModuleNotFoundError as error:
    fix = "Fix: in a clone of Northbridge, pip install . ./conformance"
    raise ModuleNotFoundError(f"northbridge.conformance needs {error.name!r}. {fix}", name=error.name) from error
sys.modules[f"{__name__}.levels"] = levels
