"""The only room that imports Lightning.

Importing it does by hand what torch's autoload does by itself, at any moment: for torch 2.4, and where
``TORCH_DEVICE_BACKEND_AUTOLOAD=0``.
"""

from __future__ import annotations

from northbridge.autoload import arm

arm()
