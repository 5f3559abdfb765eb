"""The only package that imports Lightning.

Importing it arms Northbridge by hand, as torch's autoload does by itself. torch 2.4 and
``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` need it.
"""

from __future__ import annotations

from northbridge.autoload import arm

arm()
