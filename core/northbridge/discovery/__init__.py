"""From a name to a loaded Backend, in four states, a file each.

*Installed*: a distribution announces the name in its metadata; nothing is imported. *Declared*: the one plugin is
imported, and its ``Backend`` is held. *Present*: hardware was found, without loading the vendor's software here.
*Loaded*: that was imported, and torch knows the device.
"""
