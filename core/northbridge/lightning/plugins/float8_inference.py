"""The precision that measures a model, or quantizes it to float8, for validation, test and prediction."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch.distributed

from northbridge.backend import Backend
from northbridge.discovery.installed import read_entry_points
from northbridge.errors import ArgumentsError, InstallationError, UnsupportedError
from northbridge.float8.engine import Float8Quantizer
from northbridge.float8.measurement import Measurement, SavedModel, describe
from northbridge.lightning.plugins.float8 import Float8Plugin, reject_float8, settle
from northbridge.processes.endings import describe_error

QUANTIZERS = "northbridge.float8_inference"
"""The entry-point group. An entry names a backend and its quantizer: ``acme = "northbridge_acme:Quantizer"``."""


class Float8Inference(Float8Plugin):
    """Validate, test or predict in float8, by a :class:`northbridge.Float8Quantizer`: first measure, then quantize.

    ``stage="measure"`` computes as without it, and writes the largest values that each layer has seen into ``folder``,
    at the end of the run: one set of files for each rank. The model gets its plain layers back. ``stage="quantize"``
    reads them, and replaces the layers in place; :meth:`save` then writes a model of transformers that the module has.
    ``stage="load"`` reads such a model from ``folder`` instead. Without a stage, the configuration's ``mode`` is it.

    ``config`` is the quantizer's: a dict, the path of a JSON file, or an ``FP8Config``. It is never written to. Without
    ``folder``, its ``dump_stats_path`` names the files. By default the rest of the model runs under bfloat16 autocast;
    ``hp_dtype`` is this dtype. A chip without operators of its own quantizes and dequantizes by torch's (``use_qdq``),
    and so does the CPU.

    In a Fabric, which does not tear down, call :meth:`teardown` after the last batch of a measurement.

    Raises :class:`ArgumentsError` for an invalid argument, and when a run begins: :class:`UnsupportedError` for a fit,
    a chip without float8, or missing software, and :class:`ArgumentsError` for measurements that are unfinished, or
    of another chip, generation, model, number of ranks or version of the software.
    """

    field = "float8_inference"

    def __init__(self, stage: str | None = None, folder: Any = None, config: Any = None) -> None:
        self.config: dict[str, Any] = read_config(config)
        self.stage: str = read_stage(stage, self.config.pop("mode", None))
        dumped = self.config.pop("dump_stats_path", None)
        if folder is None and (dumped is None or self.stage == "load"):
            asked, example = repr(self.stage), "quantized" if self.stage == "load" else "measurements"
            raise ArgumentsError(f"Float8Inference({asked}) has no folder. Fix: folder={example!r}")
        if self.stage == "load" and self.config:
            raise ArgumentsError(
                f"Float8Inference('load', config=…) has {', '.join(self.config)}, and the saved model has its own"
                " configuration. Fix: leave them out"
            )
        self.folder: Path = Path(dumped).parent if folder is None else Path(folder)
        self._prefix = (
            self.folder / (Path(dumped).name if dumped else "measure")
        ).absolute()  # as the quantizer's files begin
        self._dtype: torch.dtype = getattr(torch, read_dtype(self.config))
        self.backend: Backend | None = None
        self._measuring: _Conversion | None = None
        self._quantized: _Conversion | None = None

    @property
    def given(self) -> tuple[Any, ...]:
        """The arguments. Two objects with the same arguments compute the same."""
        return self.stage, self._prefix, self.config

    def bind(self, backend: Backend) -> None:
        """Set the chip of the run; raises :class:`UnsupportedError` if it has no float8, or software is missing."""
        asked = f"{type(self).__name__}()"
        reject_float8(backend, asked)
        find_quantizer(backend.name, asked).library(asked)
        self.backend = backend

    def convert_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Convert a Fabric's ``module`` in place. A Trainer's is converted when it is on the device of its rank."""
        settle(module, self)
        if not self.namespace.is_trainer:
            if self.backend is None:
                self._reject_device("this Fabric's accelerator")
            self._convert(module, torch.empty(0, device=self._chip).device)
        elif (trainer := self._trainer(module)) is not None and trainer.state.fn == "fit":
            self._reject_training("trainer.fit()")
        return module

    def connect(self, model: torch.nn.Module, optimizers: Any, lr_schedulers: Any) -> tuple[torch.nn.Module, Any, Any]:
        """Convert a Trainer's ``model``, which is on its device, and the same in all ranks by now."""
        trainer = self._trainer(model)
        # Without one, the device that the strategy has acquired.
        device = torch.empty(0, device=self._chip).device if trainer is None else trainer.strategy.root_device
        if self.backend is None and device.type != "cpu":
            self._reject_device(repr(device.type))
        self._convert(model, device)
        return model, optimizers, lr_schedulers

    def forward_context(self) -> AbstractContextManager[Any]:
        """Compute the layers that are not quantized under autocast to ``hp_dtype``."""
        return nullcontext() if self._dtype == torch.float32 else torch.autocast(self._chip, dtype=self._dtype)

    def backward(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: quantized weights have no gradients."""
        self._reject_training("backward()")

    def teardown(self) -> None:
        """Write this rank's measurements, if the run was not interrupted, and put the plain layers back."""
        measuring, self._measuring = self._measuring, None
        if measuring is None:
            return
        trainer = self._trainer(measuring.module) if self.namespace.is_trainer else None
        try:
            if trainer is None or trainer.state.status != "interrupted":
                self._finish(measuring)
        finally:
            measuring.quantizer.restore(measuring.module)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the quantized model to ``folder``, which ``stage="load"`` reads.

        Raises :class:`UnsupportedError` for a model that the quantizer cannot save, and :class:`ArgumentsError` before
        a run has quantized, or if ``folder`` has a model.
        """
        done = self._quantized
        if done is None or self.stage != "quantize":
            raise ArgumentsError(f"Float8Inference({self.stage!r}).save(): no run has quantized a model with it")
        path = Path(folder).absolute()
        name = done.quantizer.save(done.module, list(done.record.layers), path)
        SavedModel.of(done.record, name).write(path / "model", finished=True)
        self._log(f"Saved {done} in float8 to {folder}")

    def _finish(self, measuring: _Conversion) -> None:
        if not measuring.quantizer.finish(measuring.module):
            name = type(measuring.module).__name__
            raise ArgumentsError(
                f"Float8Inference('measure'): no layer of {name} has computed a batch. Fix: a run of one batch or more"
            )
        measuring.record.write(self._prefix, finished=True)
        self._log(f"Wrote the measurements of {measuring} to {self.folder}")

    def _convert(self, module: torch.nn.Module, device: torch.device) -> None:
        asked = f"{type(self).__name__}()"
        made = find_quantizer("cpu" if self.backend is None else self.backend.name, asked)
        library, quantizer = made.library(asked), made(self._chip)
        if any(map(quantizer.is_converted, module.modules())):
            if self._quantized is not None and self._quantized.module is module:
                return
            raise UnsupportedError(
                f"{type(module).__name__} is quantized already, or still measured. Fix: load the plain model",
                capability="float8",
            )
        if any(hasattr(each, "device_mesh") for each in module.parameters()):
            raise UnsupportedError(
                "Float8Inference does not quantize sharded parameters. Fix: strategy='ddp'", capability="float8"
            )
        quantizer.open()
        layers = {name: describe(module.get_submodule(name)) for name in quantizer.layers(module)}
        record = self._record(layers, library, device)
        conversion = _Conversion(quantizer, module, record)
        if self.stage == "load":
            word = quantizer.load(module, self.folder.absolute(), conversion.check_saved)
            self._dtype = getattr(torch, read_dtype({"hp_dtype": word}))
            self._quantized = conversion
            self._log(f"Loaded {conversion} in float8 from {self.folder}")
            return
        settings = quantizer.settle(copy.deepcopy(self.config), self._prefix)
        if self.stage == "measure":
            record.write(self._prefix)
            quantizer.measure(module, settings, device)
            self._reject_none(conversion, settings)
            self._measuring = conversion
            self._log(f"Measuring {conversion} for float8 inference")
        else:
            record.check(self._prefix, quantizer.files(settings))
            quantizer.quantize(module, settings)
            self._reject_none(conversion, settings)
            self._quantized = conversion
            how = "the vendor's operators" if quantizer.native else "quantizing and dequantizing (QDQ)"
            self._log(f"Quantized {conversion} to float8 by {how}")

    def _record(self, layers: dict[str, str], library: str, device: torch.device) -> Measurement:
        many = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, ranks = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if many else (0, 1)
        name = "" if self.backend is None else self.backend.device.label(device.index or 0)
        return Measurement(chip=device.type, device=name, rank=rank, world_size=ranks, library=library, layers=layers)

    def _reject_none(self, conversion: _Conversion, settings: Mapping[str, Any]) -> None:
        if conversion.count():
            return
        module, record = conversion.module, conversion.record
        lists = {key: settings[key] for key in ("allowlist", "blocklist") if key in settings}
        found = f"it has {', '.join(record.layers)}, and config= has {lists}" if record.layers else "it has none"
        raise UnsupportedError(
            f"no layer of {type(module).__name__} can be quantized to float8 on {self._chip!r}: {found}. Fix: a model"
            " with torch.nn.Linear layers, or precision='bf16-mixed'",
            capability="float8",
        )

    @property
    def _chip(self) -> str:
        return "cpu" if self.backend is None else self.backend.device.type

    def _trainer(self, module: torch.nn.Module) -> Any:
        unwrapped: Any = getattr(module, "_orig_mod", module)  # of a compiled module
        return unwrapped._trainer  # None if it is attached to none, where the property raises an error

    def _reject_training(self, asked: str) -> NoReturn:
        raise UnsupportedError(
            f"{asked}: {type(self).__name__} is for validation, test and prediction alone. Fix: train with"
            " precision='transformer-engine' or 'bf16-mixed'",
            capability="float8",
        )

    def _reject_device(self, found: str) -> NoReturn:
        raise UnsupportedError(
            f"{type(self).__name__} does not run on {found}: it runs on Northbridge's chips that claim float8, and in a"
            " Trainer on the CPU. Fix: accelerator= one of them",
            capability="float8",
        )

    def _log(self, line: str) -> None:
        self.namespace.fabric_module("utilities.rank_zero").rank_zero_info(line)


@dataclass(frozen=True)
class _Conversion:
    """A module whose layers measure, or are quantized."""

    quantizer: Float8Quantizer
    module: torch.nn.Module
    record: Measurement

    def count(self) -> int:
        """Return how many layers have been converted."""
        return sum(map(self.quantizer.is_converted, self.module.modules()))

    def check_saved(self, name: str, folder: Path, files: Sequence[Path]) -> None:
        """Raise :class:`ArgumentValueError` unless ``folder`` has the model ``name`` of this very module."""
        SavedModel.of(self.record, name).check(folder / "model", files)

    def __str__(self) -> str:
        count = self.count()
        return f"{count} layer{'s' if count != 1 else ''}"


def find_quantizer(backend: str, asked: str) -> type[Float8Quantizer]:
    """Return the quantizer that the ``backend`` announces, or else the first that is installed, by name.

    Imports its module alone. Raises :class:`UnsupportedError` if there is none, and :class:`InstallationError` if it is
    broken; ``asked`` is what needs it.
    """
    found = {entry.name: entry for entry in read_entry_points().select(group=QUANTIZERS)}
    if not found:
        raise UnsupportedError(
            f"{asked} needs a quantizer, and no installed backend has one. Fix: install a backend that"
            f" announces one in the entry-point group {QUANTIZERS!r}",
            capability="float8",
        )
    entry = found.get(backend) or found[min(found)]
    try:
        quantizer: type[Float8Quantizer] = entry.load()
    except (ImportError, AttributeError) as error:
        raise InstallationError(f"{entry.value}: {describe_error(error)}. Fix: reinstall its distribution") from error
    return quantizer


STAGES = ("measure", "quantize", "load")

DTYPES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}
"""The library's words, with torch's names: this module may be imported before torch has its dtypes."""


def read_config(config: Any) -> dict[str, Any]:
    """Return a copy of a configuration of the library's: a dict, the path of a JSON file, or an ``FP8Config``.

    Raises :class:`ArgumentsError` if it is something else.
    """
    if config is None:
        return {}
    if isinstance(config, (str, os.PathLike)):
        try:
            config = json.loads(Path(config).read_text())
        except (OSError, ValueError) as error:
            raise ArgumentsError(f"Float8Inference(config={str(config)!r}) cannot be read: {error}") from error
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        kind = type(config).__name__
        raise ArgumentsError(
            f"Float8Inference(config=…) is {kind}, not a configuration. Fix: a dict, the path of a"
            " JSON file with one, or an FP8Config"
        )
    return copy.deepcopy(dict(config))


def read_stage(stage: str | None, mode: Any) -> str:
    """Return the stage that the user asks for, or that the ``mode`` of a configuration means."""
    word = str(getattr(mode, "name", mode)).lower()
    asked = stage if stage is not None else word
    if asked not in STAGES:
        found = "" if stage is None else repr(stage)
        raise ArgumentsError(
            f"Float8Inference({found}): stage=, or the mode of config=, is one of {', '.join(map(repr, STAGES))}"
        )
    if word in (*STAGES, "shape") and word != asked:
        raise ArgumentsError(f"Float8Inference({asked!r}) contradicts the mode {mode!r} in config=. Fix: leave one out")
    return asked


def read_dtype(config: Mapping[str, Any]) -> str:
    """Return torch's name of a configuration's ``hp_dtype``; raises :class:`ArgumentsError` for an unknown one."""
    word = str(config.get("hp_dtype", "BF16")).upper()
    if word not in DTYPES:
        known = ", ".join(DTYPES)
        raise ArgumentsError(f"Float8Inference: hp_dtype={word!r} is not one of {known}")
    return DTYPES[word]
