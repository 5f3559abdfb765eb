"""The way from a name to a loaded Backend, in four states with one file each.

*Installed*: a distribution announces the name in its metadata; nothing is imported. *Declared*: one plugin is imported,
and its ``Backend`` is kept. *Present*: hardware was found, without loading the vendor's software here. *Loaded*: that
software was imported, and torch knows the device.
"""
