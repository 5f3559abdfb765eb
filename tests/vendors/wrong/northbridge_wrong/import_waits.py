"""Its import waits, and costs no CPU time."""

import time

import northbridge_right as right

time.sleep(0.5)
right.announce("import_waits")
