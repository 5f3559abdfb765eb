"""Intel Neural Compressor, which quantizes models to float8 for inference: on Gaudi, and by QDQ on other chips."""

from __future__ import annotations

import difflib
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import northbridge
from northbridge_hpu.data import world_size

_NAME = "neural-compressor-pt"
"""The library's name on the package index; northbridge's extra ``float8`` brings it."""

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


class NeuralCompressor(northbridge.Float8Quantizer):
    """The library, for one model. It saves and loads models of transformers, of one rank."""

    @classmethod
    def library(cls, asked: str) -> str:
        try:
            return f"{_NAME} {version(_NAME)}"
        except PackageNotFoundError as error:
            old = sys.version_info < (3, 11)
            why = f"which needs Python 3.11, and this is {sys.version.split()[0]}" if old else "which is not installed"
            fix = f"{'install Python 3.11 or later, and then ' * old}pip install {_NAME}"
            raise northbridge.UnsupportedError(
                f"{asked} needs {_NAME}, {why}. Fix: {fix}", capability="float8"
            ) from error

    def open(self) -> None:
        """Import the library, which chooses a device once in a process, at its import."""
        chip, asked = self.chip, os.environ.get("INC_TARGET_DEVICE")
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
            raise northbridge.UnsupportedError(
                f"{_NAME} computes on {chosen!r} in this process, not on {chip!r}: it was imported before"
                f" {chip!r} was loaded. Fix: import it after the Trainer is made",
                capability="float8",
            )
        self.native = chosen != "cpu"

    def settle(self, config: Mapping[str, Any], prefix: Path) -> dict[str, Any]:
        quantization = import_module(f"{_HOME}.quantization")
        keys = [*quantization.FP8Config().to_dict(), *_FURTHER_KEYS]
        for key in config:
            _reject_unknown("the key", key, keys)
        # Scales in files, which the library would read again, may be of another float8 or of another configuration.
        defaults = {"recalc_scales": True, **({} if self.native else _QUANTIZE_AND_DEQUANTIZE)}
        settings = {**defaults, **config, "dump_stats_path": str(prefix)}
        if isinstance(settings.get("scale_method"), str):
            methods = import_module(f"{_HOME}.algorithms.fp8_quant._core.scale_methods.scale_method_config")
            names = [each.name.lower() for each in methods.ScaleMethodString]
            _reject_unknown("the scale method", settings["scale_method"].lower(), names)
        models = import_module(f"{_HOME}.algorithms.fp8_quant.model_configs")
        _reject_unknown("the observer", str(settings.get("observer", "maxabs")), list(models.OBSERVER_TYPES))
        if not self.native and str(settings["use_qdq"]).lower() != "true":
            raise northbridge.UnsupportedError(
                f"{_NAME} has no operators of {self.chip!r}, and use_qdq is false. Fix: leave use_qdq out",
                capability="float8",
            )
        return settings

    def layers(self, module: torch.nn.Module) -> list[str]:
        table = import_module(f"{_HOME}.algorithms.fp8_quant.model_configs").get_patched_module_table()
        return [name for name, each in module.named_modules() if type(each).__name__ in table]

    def is_converted(self, module: torch.nn.Module) -> bool:
        return getattr(module, "_mod_extra_config", None) is not None

    def measure(self, module: torch.nn.Module, settings: Mapping[str, Any], device: torch.device) -> None:
        self._attributes = set(vars(module))
        with self._on_its_device(module):
            self._call("prepare", module, {**settings, "mode": "MEASURE"})
        for layer in self._converted(module):
            extra: Any = layer._mod_extra_config
            for observer in (*(extra.inputs or ()), *(extra.outputs or ())):
                if observer.state is not None:  # kept on the library's device, which may be the CPU for a chip
                    observer.state = observer.state.to(device)

    def finish(self, module: torch.nn.Module) -> bool:
        config: Any = module.__hqt_config__
        import_module(f"{_HOME}.quantization").finalize_calibration(module)
        files = tuple(Path(f"{config.cfg['measure_file']}{end}") for end in (".json", ".npz"))
        # The library does not tell of an error while it writes.
        if not all(each.is_file() for each in files) or not zipfile.is_zipfile(files[1]):
            raise northbridge.ArgumentsError(
                f"{_NAME} could not write {files[0]} and {files[1].name}. Fix: look at the disk"
            )
        measured = import_module(f"{_HOME}.algorithms.fp8_quant._core.common").load_json(str(files[0]))
        return bool(measured["Nodes"])

    def restore(self, module: torch.nn.Module) -> None:
        import_module(f"{_HOME}.algorithms.fp8_quant").restore_patched_module(module)
        for name in set(vars(module)) - self._attributes:
            delattr(module, name)
        for each in module.modules():
            vars(each).pop("__hqt_config__", None)

    def quantize(self, module: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        with self._on_its_device(module):
            try:
                self._call("convert", module, {**settings, "mode": "QUANTIZE"})
            except (KeyError, NotImplementedError, TypeError, ValueError) as error:
                method, kind = settings.get("scale_method", "maxabs_hw"), type(error).__name__
                raise northbridge.UnsupportedError(
                    f"{_NAME} cannot quantize on {self.chip!r} with scale_method={method!r}"
                    f" ({kind}: {error}). Fix: scale_method='maxabs_pow2'",
                    capability="float8",
                ) from error
        self._reject_other_weights(module)

    def files(self, settings: Mapping[str, Any]) -> tuple[Path, ...]:
        ranks = import_module(f"{_HOME}.algorithms.fp8_quant.prepare_quant.prepare_model")
        rank = ranks.get_local_rank()
        one = rank < 0 or str(settings.get("seperate_measure_files", True)).lower() == "false"
        ending = "" if one else f"_{rank}_{ranks.get_world_size()}"
        base = f"{settings['dump_stats_path']}_hooks_{settings.get('observer', 'maxabs')}{ending}"
        return (Path(f"{base}.json"), Path(f"{base}.npz"))

    def save(self, module: torch.nn.Module, layers: Sequence[str], folder: Path) -> str:
        name, model = _find_model(module, "Float8Inference.save()")
        inside = set(self._converted(model))
        outside = [each for each, layer in module.named_modules() if layer in set(self._converted(module)) - inside]
        if outside:
            raise northbridge.UnsupportedError(
                f"Float8Inference.save() is for {name!r} alone: {', '.join(outside)} would be lost. Fix: a blocklist of"
                " these names",
                capability="float8",
            )
        ranks = import_module(f"{_HOME}.algorithms.fp8_quant.prepare_quant.prepare_model").get_world_size()
        if ranks > 0:  # 0 or less in a process that is not a rank
            raise northbridge.UnsupportedError(
                f"Float8Inference.save(): {_NAME} cannot save one of {ranks} ranks. Fix: devices=1",
                capability="float8",
            )
        if any(folder.glob("*.safetensors")):
            raise northbridge.ArgumentsError(
                f"Float8Inference.save({str(folder)!r}): it has a model. Fix: another folder"
            )
        prefix = f"{name}." if name else ""
        quantized = {each for each, layer in model.named_modules() if layer in inside}
        within = [each.removeprefix(prefix) for each in layers if each.startswith(prefix)]
        kept = [f"^{each}$" for each in within if each not in quantized]
        quantization = import_module(f"{_HOME}.quantization")
        settings = next(iter(vars(module)["qconfig"].values())).to_dict()
        settings |= {"allowlist": {"types": [], "names": []}, "blocklist": {"types": [], "names": kept}}
        with self._on_its_device(module), _keep_settings(model):
            model.qconfig = {"": quantization.FP8Config.from_dict(settings)}
            quantization.save(model, str(folder))
        return name

    def load(self, module: torch.nn.Module, folder: Path, check: Callable[[str, Path, Sequence[Path]], None]) -> str:
        name, model = _find_model(module, "Float8Inference('load')")
        if world_size() > 1:
            raise northbridge.UnsupportedError(
                f"Float8Inference('load'): {_NAME} cannot load into {world_size()} ranks. Fix: devices=1",
                capability="float8",
            )
        check(name, folder, [folder / "quantization_config.json", folder / "config.json"])
        settings = json.loads((folder / "quantization_config.json").read_text())
        written = json.loads((folder / "config.json").read_text())
        with self._on_its_device(module), _keep_settings(model), _keep_buffers(model):
            model.config.quantization_config = settings
            # A quantized layer is not tied to an embedding that is not quantized.
            model.config.tie_word_embeddings = written.get("tie_word_embeddings", False)
            quantization = import_module(f"{_HOME}.quantization")
            device = model.device.type
            quantization.load(str(folder), original_model=model, format="huggingface", device=device)
        _reject_missing_weights(model, folder)
        self._reject_other_weights(model)
        return str(settings.get("hp_dtype", "BF16"))

    def _converted(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        return [each for each in module.modules() if self.is_converted(each)]

    def _reject_other_weights(self, module: torch.nn.Module) -> None:
        for layer in self._converted(module):
            layer.register_load_state_dict_pre_hook(_reject_other_weights)  # type: ignore[no-untyped-call]

    def _call(self, step: str, module: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        quantization = import_module(f"{_HOME}.quantization")
        config = quantization.FP8Config.from_dict(dict(settings))
        with TemporaryDirectory(prefix="northbridge-float8-") as folder:
            config.json_file = str(Path(folder) / "config.json")  # the library would leave it behind
            config.to_json_file(config.json_file)
            getattr(quantization, step)(module, config)

    @contextmanager
    def _on_its_device(self, module: torch.nn.Module) -> Iterator[None]:
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


def _reject_unknown(what: str, word: str, known: list[str]) -> None:
    if word in known:
        return
    near = difflib.get_close_matches(word, known, n=1)
    hint = f". Did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    raise northbridge.ArgumentsError(f"Float8Inference(config=…): {_NAME} does not know {what} {word!r}{hint}")


def _reject_other_weights(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Raise if a checkpoint's weight is not quantized: its numbers, without its scales, would be others."""
    own, given = getattr(module, "weight", None), state.get(f"{prefix}weight")
    if own is not None and given is not None and own.dtype != given.dtype:
        raise northbridge.UnsupportedError(
            f"{prefix}weight is {given.dtype}, and this layer is quantized to {own.dtype}. Fix: load the checkpoint"
            " into the plain model, and quantize that",
            capability="float8",
        )


def _find_model(root: torch.nn.Module, asked: str) -> tuple[str, Any]:
    transformers: Any = sys.modules.get("transformers")
    kind = () if transformers is None else transformers.PreTrainedModel
    found: dict[str, torch.nn.Module] = {}
    for name, each in root.named_modules():
        within = any(name.startswith(f"{outer}." if outer else "") for outer in found)
        if not within and isinstance(each, kind):
            found[name] = each
    if len(found) != 1:
        there = f"has {', '.join(found)}" if found else "has none"
        raise northbridge.UnsupportedError(
            f"{asked}: {_NAME} saves and loads one model of transformers, and {type(root).__name__} {there}."
            " Fix: stage='quantize'",
            capability="float8",
        )
    missing = " ".join(each for each in ("accelerate", "safetensors") if find_spec(each) is None)
    if missing:
        raise northbridge.UnsupportedError(
            f"{asked} needs {missing.replace(' ', ', ')}. Fix: install them with pip",
            capability="float8",
        )
    return next(iter(found.items()))


@contextmanager
def _keep_settings(model: Any) -> Iterator[None]:
    """Put back what the library writes to a model and to its configuration."""
    kept = [(each, dict(vars(each))) for each in (model, model.config)]
    try:
        yield
    finally:
        for each, before in kept:
            for name in ("qconfig", "quantization_config", "tie_word_embeddings"):
                if name in before:
                    setattr(each, name, before[name])
                elif name in vars(each):
                    delattr(each, name)


@contextmanager
def _keep_buffers(model: torch.nn.Module) -> Iterator[None]:
    """Keep the buffers that no file has: the library rounds them to its dtype."""
    saved = set(model.state_dict())
    kept = {name: each.clone() for name, each in model.named_buffers() if name not in saved}
    yield
    for name, each in kept.items():
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, each.to(model.get_buffer(name).device))


def _reject_missing_weights(model: torch.nn.Module, folder: Path) -> None:
    """Raise if a weight is of no file in ``folder``: the library would leave it as it was."""
    safetensors = import_module("safetensors")
    names: set[str] = set()
    for each in folder.glob("*.safetensors"):
        with safetensors.safe_open(str(each), "pt") as opened:
            names |= set(opened.keys())
    weights = {name: each for name, each in model.state_dict().items() if isinstance(each, torch.Tensor)}
    given = {weights[name].data_ptr() for name in names & set(weights)}
    missing = ", ".join(name for name, each in weights.items() if name not in names and each.data_ptr() not in given)
    if missing:
        raise northbridge.ArgumentValueError(
            f"{folder} has no weight for {missing}. Fix: save it again, after a run with stage='quantize'"
        )
