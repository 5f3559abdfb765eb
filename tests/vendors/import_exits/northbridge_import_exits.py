"""A plugin whose module ends the process when it is imported, as scripts do."""

import sys

sys.exit("no licence for this machine")
