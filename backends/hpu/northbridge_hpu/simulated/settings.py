"""Settings of the simulated server: ``NORTHBRIDGE_HPU_SIM_…``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import pydantic

import northbridge


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _permutation(modules: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if modules is not None and sorted(modules) != list(range(len(modules))):
        raise ValueError(f"{modules} is not a permutation")
    return modules


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        raise ValueError(f"{str(path)!r} is not an absolute path")
    found = next(filter(Path.exists, (path, *path.parents)), None) if path is not None else None
    if found is not None and not found.is_dir():
        raise ValueError(f"{str(found)!r} is not a folder")
    return path


class HPUSimSettings(northbridge.Settings):
    """Settings of the simulated server's cards and software."""

    prefix = "NORTHBRIDGE_HPU_SIM_"

    generation: Literal["1", "2", "3"] = pydantic.Field(default="2", description="1, 2 or 3")
    release: Literal["1.19", "1.22"] = pydantic.Field(
        default="1.22", description="a release of the vendor's software, 1.19 (lazy by default) or 1.22 (eager)"
    )
    timeout: Literal["honoured", "ignored"] = pydantic.Field(
        default="honoured", description="honoured or ignored (whether HCCL raises after timeout=, or waits for ever)"
    )
    modules: Annotated[
        tuple[int, ...] | None, pydantic.BeforeValidator(_split), pydantic.AfterValidator(_permutation)
    ] = pydantic.Field(
        default=None, description="the module id of each card, by index: a permutation such as 1,0,3,2 that"
    )
    server: Annotated[Path | None, pydantic.AfterValidator(_folder)] = pydantic.Field(
        default=None, description="the absolute path of a folder (each folder is a server)"
    )

    @property
    def folder(self) -> Path:
        """The server's folder; the default is one folder for each user of this machine."""
        # Not in the working folder: all processes of a user share the cards.
        return self.server or Path(tempfile.gettempdir(), f"northbridge-hpu-sim-{os.getuid()}")
