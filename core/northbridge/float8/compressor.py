"""Intel Neural Compressor, which measures and quantizes models for inference in float8."""

from __future__ import annotations

import difflib
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError, UnsupportedError

if TYPE_CHECKING:
    import torch

DISTRIBUTION = "neural-compressor-pt"
"""The library's name on the package index; the extra ``float8`` brings it."""

_HOME = "neural_compressor.torch"
_QUANTIZE_AND_DEQUANTIZE = {"use_qdq": True, "scale_format": "const", "scale_method": "maxabs_pow2"}
"""The settings by default where the library has no operators of the chip: torch's operators, in its float8 dtypes."""

_FURTHER_KEYS = (
    "calibration_sample_interval",
    "device_for_scales",
    "dynamic_quantization",
    "ignore_modules_wo_measures",
    "recalc_scales",
    "row_parallel_linear_allreduce_quantization",
    "seperate_measure_files",
    "whitelist",
    "blacklist",
)
"""Keys of a configuration that ``FP8Config`` passes on; quant_config.py of the library's 3.10 reads them."""


def reject_missing_library(asked: str) -> str:
    """Return the library's version; raise :class:`UnsupportedError` if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError as error:
        old = sys.version_info < (3, 11)
        why = f"which needs Python 3.11, and this is {sys.version.split()[0]}" if old else "which is not installed"
        fix = f"{'install Python 3.11 or later, and then ' * old}pip install {DISTRIBUTION}"
        raise UnsupportedError(f"{asked} needs {DISTRIBUTION}, {why}. Fix: {fix}", capability="float8") from error


@dataclass(frozen=True)
class Compressor:
    """The library, on the chip that this process runs on."""

    chip: str
    """The torch device type of the run."""

    native: bool
    """True if the library computes by the vendor's operators; False if it quantizes and dequantizes by torch's."""

    @classmethod
    def open(cls, chip: str) -> Compressor:
        """Import the library for ``chip``, whose card this process holds. Raises :class:`UnsupportedError`.

        The library chooses a device once in a process, at its import.
        """
        asked = os.environ.get("INC_TARGET_DEVICE")
        os.environ.setdefault("INC_TARGET_DEVICE", chip)
        try:
            accelerators: Any = import_module(f"{_HOME}.utils.auto_accelerator")
            import_module(f"{_HOME}.quantization")
            chosen = accelerators.auto_detect_accelerator().name()
        finally:
            if asked is None:
                os.environ.pop("INC_TARGET_DEVICE", None)
        known = import_module(f"{_HOME}.algorithms.fp8_quant.model_configs").DEVICE_TYPES
        if chosen not in (chip, "cpu") or (chosen != chip and chip in known and asked is None):
            raise UnsupportedError(
                f"{DISTRIBUTION} computes on {chosen!r} in this process, not on {chip!r}: it was imported before"
                f" {chip!r} was loaded. Fix: import it after the Trainer is made",
                capability="float8",
            )
        return cls(chip, native=chosen != "cpu")

    def settle(self, given: Mapping[str, Any], prefix: Path) -> dict[str, Any]:
        """Return the configuration for a user's, with measurements in files that begin with ``prefix``.

        Raises :class:`ArgumentsError` for a key or a scale method that the library does not know, and
        :class:`UnsupportedError` for one that it does not offer on this chip.
        """
        quantization = import_module(f"{_HOME}.quantization")
        keys = [*quantization.FP8Config().to_dict(), *_FURTHER_KEYS]
        for key in given:
            _reject_unknown("the key", key, keys)
        # Scales in files, which the library would read again, may be of another float8 or of another configuration.
        defaults = {"recalc_scales": True, **({} if self.native else _QUANTIZE_AND_DEQUANTIZE)}
        settings = {**defaults, **given, "dump_stats_path": str(prefix)}
        if isinstance(settings.get("scale_method"), str):
            methods = import_module(f"{_HOME}.algorithms.fp8_quant._core.scale_methods.scale_method_config")
            names = [each.name.lower() for each in methods.ScaleMethodString]
            _reject_unknown("the scale method", settings["scale_method"].lower(), names)
        models = import_module(f"{_HOME}.algorithms.fp8_quant.model_configs")
        _reject_unknown("the observer", str(settings.get("observer", "maxabs")), list(models.OBSERVER_TYPES))
        if not self.native and str(settings["use_qdq"]).lower() != "true":
            raise UnsupportedError(
                f"{DISTRIBUTION} has no operators of {self.chip!r}, and use_qdq is false. Fix: leave use_qdq out",
                capability="float8",
            )
        return settings

    def layers(self, module: torch.nn.Module) -> dict[str, str]:
        """Return the layers of ``module`` that the library supports on this chip, as the record describes them."""
        table = import_module(f"{_HOME}.algorithms.fp8_quant.model_configs").get_patched_module_table()
        return {name: _describe(each) for name, each in module.named_modules() if type(each).__name__ in table}

    def measure(self, module: torch.nn.Module, settings: Mapping[str, Any], device: torch.device) -> None:
        """Let the layers of ``module`` measure the largest values of their tensors on ``device``."""
        with self.on_its_device(module):
            self._call("prepare", module, {**settings, "mode": "MEASURE"})
        for layer in converted_layers(module):
            extra: Any = layer._mod_extra_config
            for observer in (*(extra.inputs or ()), *(extra.outputs or ())):
                if observer.state is not None:  # kept on the library's device, which may be the CPU for a chip
                    observer.state = observer.state.to(device)

    def finish(self, module: torch.nn.Module) -> tuple[Path, ...]:
        """Write this rank's measurements, and return their files; none if no layer has measured."""
        config: Any = module.__hqt_config__
        import_module(f"{_HOME}.quantization").finalize_calibration(module)
        files = tuple(Path(f"{config.cfg['measure_file']}{end}") for end in (".json", ".npz"))
        # The library does not tell of an error while it writes.
        if not all(each.is_file() for each in files) or not zipfile.is_zipfile(files[1]):
            raise ArgumentsError(
                f"{DISTRIBUTION} could not write {files[0]} and {files[1].name}. Fix: look at the disk"
            )
        measured = import_module(f"{_HOME}.algorithms.fp8_quant._core.common").load_json(str(files[0]))
        return files if measured["Nodes"] else ()

    def restore(self, module: torch.nn.Module, attributes: set[str]) -> None:
        """Put the plain layers back into a measured ``module``, which has ``attributes`` of its own."""
        import_module(f"{_HOME}.algorithms.fp8_quant").restore_patched_module(module)
        for name in set(vars(module)) - attributes:
            delattr(module, name)
        for each in module.modules():
            vars(each).pop("__hqt_config__", None)

    def quantize(self, module: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        """Quantize the layers of ``module`` by their measurements, in place.

        Raises :class:`UnsupportedError` if the library does not offer the scale method on this chip.
        """
        with self.on_its_device(module):
            try:
                self._call("convert", module, {**settings, "mode": "QUANTIZE"})
            except (KeyError, NotImplementedError, TypeError, ValueError) as error:
                method, kind = settings.get("scale_method", "maxabs_hw"), type(error).__name__
                raise UnsupportedError(
                    f"{DISTRIBUTION} cannot quantize on {self.chip!r} with scale_method={method!r}"
                    f" ({kind}: {error}). Fix: scale_method='maxabs_pow2'",
                    capability="float8",
                ) from error
        for layer in converted_layers(module):
            layer.register_load_state_dict_pre_hook(reject_other_weights)  # type: ignore[no-untyped-call]

    def files(self, settings: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the files that this rank's measurements are read from."""
        ranks = import_module(f"{_HOME}.algorithms.fp8_quant.prepare_quant.prepare_model")
        rank = ranks.get_local_rank()
        one = rank < 0 or str(settings.get("seperate_measure_files", True)).lower() == "false"
        ending = "" if one else f"_{rank}_{ranks.get_world_size()}"
        base = f"{settings['dump_stats_path']}_hooks_{settings.get('observer', 'maxabs')}{ending}"
        return (Path(f"{base}.json"), Path(f"{base}.npz"))

    def _call(self, step: str, module: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        quantization = import_module(f"{_HOME}.quantization")
        config = quantization.FP8Config.from_dict(dict(settings))
        with TemporaryDirectory(prefix="northbridge-float8-") as folder:
            config.json_file = str(Path(folder) / "config.json")  # the library would leave it behind
            config.to_json_file(config.json_file)
            getattr(quantization, step)(module, config)

    @contextmanager
    def on_its_device(self, module: torch.nn.Module) -> Iterator[None]:
        """Hold ``module`` on the CPU where the library takes a chip that it does not know for the CPU."""
        device = next((each.device for each in module.parameters()), None)
        if self.native or device is None or device.type == "cpu":
            yield
            return
        module.to("cpu")
        try:
            yield
        finally:
            module.to(device)


def _describe(layer: torch.nn.Module) -> str:
    """Return the class of ``layer``, and the shape and largest value of its weight, which the scales depend on."""
    weight: torch.Tensor | None = getattr(layer, "weight", None)
    if weight is None or not weight.numel():
        return type(layer).__name__
    return f"{type(layer).__name__} {tuple(weight.shape)} up to {weight.detach().abs().max().item():.4g}"


def converted_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the layers of ``module`` that the library has replaced, to measure or as quantized ones."""
    return [each for each in module.modules() if getattr(each, "_mod_extra_config", None) is not None]


def _reject_unknown(what: str, word: str, known: list[str]) -> None:
    if word in known:
        return
    near = difflib.get_close_matches(word, known, n=1)
    hint = f". Did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    raise ArgumentsError(f"Float8Inference(config=…): {DISTRIBUTION} does not know {what} {word!r}{hint}")


def reject_other_weights(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Raise if a checkpoint's weight is not quantized: its numbers, without its scales, would be others."""
    own, given = getattr(module, "weight", None), state.get(f"{prefix}weight")
    if own is not None and given is not None and own.dtype != given.dtype:
        raise UnsupportedError(
            f"{prefix}weight is {given.dtype}, and this layer is quantized to {own.dtype}. Fix: load the checkpoint"
            " into the plain model, and quantize that",
            capability="float8",
        )
