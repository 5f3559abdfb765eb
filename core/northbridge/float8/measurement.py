"""Records of float8 inference, beside measurements and saved models: which chip, rank and model they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pydantic

from northbridge.errors import ArgumentValueError

if TYPE_CHECKING:
    import torch


class Measurement(pydantic.BaseModel):
    """What one rank has measured, and where."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="forbid")

    chip: str
    """The torch device type."""

    device: str
    """The card's product name, which tells generations apart."""

    rank: int
    world_size: int
    library: str
    """The library and its version."""

    layers: dict[str, str]
    """The layers that the library supports, each with its class, and the shape and largest value of its weight."""

    finished: bool = False

    done: ClassVar[str] = "measured"
    again: ClassVar[str] = "measure again with stage='measure'"

    def path(self, prefix: Path) -> Path:
        """Return the record's file, beside measurements whose files begin with ``prefix``.

        Its own name begins otherwise: each rank that begins to measure moves what begins so out of the way.
        """
        return prefix.with_name(f"northbridge_{prefix.name}_{self.rank}_{self.world_size}.json")

    def write(self, prefix: Path, *, finished: bool = False) -> None:
        """Write the record; an unfinished one when the measurement begins."""
        path = self.path(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_copy(update={"finished": finished}).model_dump_json(indent=2))

    def check(self, prefix: Path, files: Sequence[Path]) -> None:
        """Raise :class:`ArgumentValueError` unless ``files`` are a finished measurement of this very rank and model."""
        path, folder = self.path(prefix), prefix.parent
        if not path.is_file():
            raise ArgumentValueError(f"{folder} {self._what_is_there(prefix, files)}")
        try:
            found = type(self).model_validate_json(path.read_text())
        except (ValueError, OSError) as error:
            raise ArgumentValueError(f"{path} is not a record of Northbridge: {error}. Fix: {self.again}") from error
        name = path.name
        if not found.finished:
            raise ArgumentValueError(f"{name} in {folder} is of an unfinished run. Fix: {self.again}")
        for what, theirs, ours in self._differences(found):
            raise ArgumentValueError(
                f"{name} in {folder} was {self.done} with {what} {theirs}, and this run has {ours}. Fix: {self.again}"
            )
        missing = ", ".join(each.name for each in files if not each.is_file())
        if missing:
            raise ArgumentValueError(f"{folder} has {name}, but not {missing}. Fix: {self.again}")

    def _differences(self, found: Measurement) -> list[tuple[str, str, str]]:
        pairs = [
            ("the chip", repr(found.chip), repr(self.chip)),
            ("the device", found.device, self.device),
            ("the library", found.library, self.library),
            *(
                (f"the layer {name!r}:", found.layers.get(name, "none"), self.layers.get(name, "none"))
                for name in {**found.layers, **self.layers}
            ),
        ]
        return [(what, theirs, ours) for what, theirs, ours in pairs if theirs != ours]

    def _what_is_there(self, prefix: Path, files: Sequence[Path]) -> str:
        records = prefix.parent.glob(f"northbridge_{prefix.name}_*.json")
        names = [re.fullmatch(r".*_(\d+)_(\d+)\.json", each.name) for each in records]
        sizes = sorted({int(each[2]) for each in names if each})
        if not sizes:
            there = [each.name for each in files if each.is_file()]
            known = f"has {there[-1]}, but no record of its chip and ranks" if there else "has no measurement"
            return f"{known}. Fix: measure with stage='measure' first"
        if self.world_size in sizes:
            return f"has no measurement of rank {self.rank} of {self.world_size}. Fix: {self.again}"
        by = " and ".join(f"{size} rank{'s' if size > 1 else ''}" for size in sizes)
        return f"was measured by {by}, and this run has {self.world_size}. Fix: devices={sizes[0]}, or {self.again}"


class SavedModel(Measurement):
    """Which chip and model a folder with a quantized model belongs to; its layers without their largest values."""

    done: ClassVar[str] = "saved"
    again: ClassVar[str] = "save it again, after a run with stage='quantize'"

    @classmethod
    def of(cls, record: Measurement, name: str) -> SavedModel:
        """Return the record of the module ``name`` for ``record``, which is that of the whole model."""
        prefix = f"{name}." if name else ""
        layers = {
            each.removeprefix(prefix): told.partition(" up to ")[0]
            for each, told in record.layers.items()
            if each.startswith(prefix)
        }
        return cls(**record.model_copy(update={"layers": layers}).model_dump())

    def check(self, prefix: Path, files: Sequence[Path]) -> None:
        if not self.path(prefix).is_file():
            raise ArgumentValueError(
                f"{prefix.parent} has no quantized model of Northbridge. Fix: save() of a run with stage='quantize'"
                " first"
            )
        super().check(prefix, files)


def describe(layer: torch.nn.Module) -> str:
    """Return the class of ``layer``, and the shape and largest value of its weight, which the scales depend on."""
    weight: torch.Tensor | None = getattr(layer, "weight", None)
    if weight is None or not weight.numel():
        return type(layer).__name__
    return f"{type(layer).__name__} {tuple(weight.shape)} up to {weight.detach().abs().max().item():.4g}"
