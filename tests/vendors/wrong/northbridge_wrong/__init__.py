"""Backends that are subtly wrong: each is the right parent (``northbridge_right``) and one override.

Each is announced by its subject's module, which is imported here, as the module ``northbridge_wrong.<its name>``.
"""

from northbridge_wrong import (
    acceleration,
    devices,
    host_copies,
    memory,
    operations,
    operator_claims,
    precision,
    processes,
    reductions,
    waits,
)
