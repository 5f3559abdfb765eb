"""The module of this plugin before it was renamed: its entry point names ``northbridge_module_gone``."""
