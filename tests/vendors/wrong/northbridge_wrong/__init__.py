"""Backends that are subtly wrong: each is the right parent (``northbridge_right``) and one override.

Each is announced by its subject's module, which is imported here, as the module ``northbridge_wrong.<its name>``.
"""

import northbridge_wrong.checkpoints
import northbridge_wrong.compilers
import northbridge_wrong.deepspeed
import northbridge_wrong.devices
import northbridge_wrong.float8
import northbridge_wrong.graphs
import northbridge_wrong.image_loaders
import northbridge_wrong.memory
import northbridge_wrong.operations
import northbridge_wrong.operator_claims
import northbridge_wrong.optimizers
import northbridge_wrong.plugin
import northbridge_wrong.precision
import northbridge_wrong.processes
import northbridge_wrong.profilers
import northbridge_wrong.random_numbers
import northbridge_wrong.recompilation
import northbridge_wrong.reductions
import northbridge_wrong.streams
import northbridge_wrong.transfers
import northbridge_wrong.waits
