"""Its import waits, and costs no CPU time."""

import time

from northbridge_wrong import right

time.sleep(0.5)
right.announce("import_waits")
