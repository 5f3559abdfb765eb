"""What the environment and the file of a simulated device say alike: how many devices, of what memory, called what."""

from __future__ import annotations

import re
from typing import Annotated

import pydantic


def _whole_size(value: object) -> object:
    # ByteSize reads as far as it can: "1,5GiB" would be one byte, "16GiB each" sixteen GiB.
    pattern = pydantic.ByteSize.byte_string_pattern
    if isinstance(value, str) and not re.fullmatch(pattern + r"\s*", value):
        raise ValueError(f"{value!r} is not a size")
    return value


Count = Annotated[int, pydantic.Field(ge=1, le=64, description="a whole number from 1 to 64")]

Memory = Annotated[
    pydantic.ByteSize,
    pydantic.BeforeValidator(_whole_size),
    pydantic.Field(
        ge=2**20,
        le=2**50,
        description="the size of one device's memory, from 1MiB to 1PiB, such as 512MiB or 16GiB,",
    ),
]

Label = Annotated[
    str,
    pydantic.Field(
        max_length=100, pattern=r"^[\x20-\x7e]+$", description="a name of 1 to 100 printable ASCII characters"
    ),
]
