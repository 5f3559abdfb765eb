"""Level C0: the plugin, which needs neither the chip nor the vendor's software.

Whatever runs a plugin's code does so in a process of its own, which is asked a question (``asking``).
"""
