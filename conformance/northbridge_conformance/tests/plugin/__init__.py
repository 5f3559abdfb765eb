"""Level C0: the plugin, which needs neither the chip nor the vendor's software.

The plugin's code runs in separate processes, which answer questions (``runs.question``).
"""
