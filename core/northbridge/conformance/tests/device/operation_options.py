"""Operations with options, beside the CPU's."""

from __future__ import annotations

from typing import ClassVar

from northbridge.conformance.tests.device.operations import ComparedOperations
from northbridge.conformance.tests.device.option_table import OPTIONS


class OperationOptions(ComparedOperations):
    """Operations give the CPU's numbers and gradients with what users ask of them beside the plain call, too."""

    table = OPTIONS
    advice: ClassVar[str] = (
        "The plain call of the same operation passes among Operations: look at what your torch plugin makes of the"
        " argument that is another here. One that it does not know it has to refuse, and not to ignore."
    )
