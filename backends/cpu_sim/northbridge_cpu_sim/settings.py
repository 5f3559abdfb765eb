"""Settings of the simulated chip: ``NORTHBRIDGE_CPU_SIM_…``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal

import pydantic

import northbridge


def _whole_size(value: object) -> object:
    # ByteSize parses only a prefix: "1,5GiB" would be one byte, "16GiB each" sixteen GiB.
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
        description="the size of one device's memory, from 1MiB to 1PiB, such as 512MiB or 16GiB",
    ),
]

Label = Annotated[
    str,
    pydantic.Field(
        max_length=100, pattern=r"^[\x20-\x7e]+$", description="a name of 1 to 100 printable ASCII characters"
    ),
]


def _absolute(path: Path | None) -> Path | None:
    if path is None:
        return None
    path = Path(os.path.expanduser(path))  # pathlib's function raises RuntimeError for an unknown user
    if not path.is_absolute():
        raise ValueError(f"{str(path)!r} is not an absolute path")
    return path


class SimSettings(northbridge.Settings):
    """Settings of the simulated chip's devices, its cache, and its record."""

    prefix = "NORTHBRIDGE_CPU_SIM_"

    devices: Count = 8
    """The number of simulated devices."""

    memory: Memory = pydantic.ByteSize(16 * 2**30)
    """The size of one device's memory."""

    name: Label = "Northbridge simulated chip"
    """The name of the chip."""

    one_per_process: bool = pydantic.Field(default=False, description="1 or 0 (or true or false)")
    """Whether a process holds one device, and calls it 0."""

    autograd_threads: bool = pydantic.Field(default=False, description="1 or 0 (or true or false)")
    """Whether each device has a thread for its backward pass."""

    streams: Literal["immediate", "deferred"] = pydantic.Field(default="immediate", description="immediate or deferred")
    """When copies and collectives take effect: at once, or when they are waited for."""

    fresh: Literal["any", "nan"] = pydantic.Field(default="any", description="any or nan")
    """The content of new memory."""

    freed: Literal["any", "trap"] = pydantic.Field(default="any", description="any or trap")
    """What access to freed memory does: anything, or end the process."""

    errors: Literal["immediate", "asynchronous"] = pydantic.Field(
        default="immediate", description="immediate or asynchronous"
    )
    """When a device's errors are raised: at once, or at the next synchronisation."""

    products: Literal["float32", "tf32"] = pydantic.Field(default="float32", description="float32 or tf32")
    """How many bits of float32 factors are read: TF32 reads 10 of the mantissa's 23.

    NVIDIA's GPUs do so from Ampere on:
    https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html#tensorfloat-32-tf32-on-nvidia-ampere-and-later-devices
    """

    accumulation: Literal["float32", "bfloat16"] = pydantic.Field(default="float32", description="float32 or bfloat16")
    """The dtype in which four parts of a product of bfloat16 are added up.

    Newer GPUs truncate partial sums to the narrow dtype:
    https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html#reduced-precision-reduction-for-fp16-and-bf16-gemms
    """

    order: Literal["cpu", "other"] = pydantic.Field(default="cpu", description="cpu or other")
    """The order of floating-point sums, means, and sums of products. The other order begins at the end.

    It differs between platforms, CPU and GPU among them, and between slices and the whole:
    https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html
    """

    denormals: Literal["kept", "flushed"] = pydantic.Field(default="kept", description="kept or flushed")
    """Whether a product of float16 or bfloat16 replaces denormal inputs and outputs by zero.

    AMD's MI200 does: https://rocm.docs.amd.com/projects/MIOpen/en/latest/MI200AlternateImplementation.html
    """

    cache: Annotated[Path | None, pydantic.AfterValidator(_absolute)] = pydantic.Field(
        default=None, description="the absolute path of a folder that only you can write"
    )
    """The folder of the compiled chip, `~/.cache/northbridge/cpu_sim` by default."""

    record: Annotated[Path | None, pydantic.AfterValidator(_absolute)] = pydantic.Field(
        default=None, description="the absolute path of the folder for the record"
    )
    """Lets a simulated vendor's chip record each used symbol there."""

    faults: str = pydantic.Field(
        default="", description="a plan of faults, such as 'kill rank=1 step=5; slow op=all_reduce seconds=0.2'"
    )
    """Faults that are planned."""

    check_collectives: bool = pydantic.Field(default=False, description="1 or 0 (or true or false)")
    """Whether the ranks' collectives are compared before anything is sent."""
