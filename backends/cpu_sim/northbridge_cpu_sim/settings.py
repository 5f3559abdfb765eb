"""What the environment may say to the simulated chip: ``NORTHBRIDGE_CPU_SIM_…``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import pydantic

import northbridge
from northbridge_cpu_sim.quantities import Count, Label, Memory


def _absolute(path: Path | None) -> Path | None:
    if path is None:
        return None
    path = Path(os.path.expanduser(path))  # pathlib's raises RuntimeError for an unknown user
    if not path.is_absolute():
        raise ValueError(f"{str(path)!r} is not an absolute path")
    return path


class SimSettings(northbridge.Settings):
    """What the simulated chip looks like, where it is kept once compiled, and where it is told what was touched."""

    prefix = "NORTHBRIDGE_CPU_SIM_"

    devices: Count = 8
    memory: Memory = pydantic.ByteSize(16 * 2**30)
    name: Label = "Northbridge simulated chip"
    one_per_process: bool = pydantic.Field(default=False, description="1 or 0 (or true or false)")
    autograd_threads: bool = pydantic.Field(default=False, description="1 or 0 (or true or false)")
    streams: Literal["immediate", "deferred"] = pydantic.Field(default="immediate", description="immediate or deferred")
    fresh: Literal["any", "nan"] = pydantic.Field(default="any", description="any or nan")
    freed: Literal["any", "trap"] = pydantic.Field(default="any", description="any or trap")
    errors: Literal["immediate", "asynchronous"] = pydantic.Field(
        default="immediate", description="immediate or asynchronous"
    )
    cache: Annotated[Path | None, pydantic.AfterValidator(_absolute)] = pydantic.Field(
        default=None, description="the absolute path of a folder that only you can write"
    )
    record: Annotated[Path | None, pydantic.AfterValidator(_absolute)] = pydantic.Field(
        default=None, description="the absolute path of the folder that takes the record"
    )
    faults: str = pydantic.Field(
        default="", description="a plan of faults, such as 'kill rank=1 step=5; slow op=all_reduce seconds=0.2',"
    )
    check_collectives: bool = pydantic.Field(default=False, description="1 or 0 (or true or false)")
