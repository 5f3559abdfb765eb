"""Quantized models of transformers in folders, as Neural Compressor saves and loads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import torch

from northbridge.errors import ArgumentsError, ArgumentValueError, UnsupportedError
from northbridge.float8.compressor import DISTRIBUTION, Compressor, converted_layers, reject_other_weights
from northbridge.float8.measurement import Measurement

_CONFIG = "quantization_config.json"  # the library's name
_NEEDED = ("accelerate", "safetensors")  # beside transformers, which the model needs


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


def save_model(library: Compressor, root: torch.nn.Module, record: Measurement, folder: Path) -> None:
    """Write the quantized model of transformers in ``root`` to ``folder``.

    ``record`` has the layers of ``root`` before it was quantized. Raises :class:`UnsupportedError` if the library
    cannot save it, and :class:`ArgumentsError` if ``folder`` has a model already.
    """
    name, model = _find_model(root, "Float8Inference.save()")
    inside = set(converted_layers(model))
    outside = [each for each, layer in root.named_modules() if layer in set(converted_layers(root)) - inside]
    if outside:
        raise UnsupportedError(
            f"Float8Inference.save() is for {name!r} alone: {', '.join(outside)} would be lost. Fix: a blocklist of"
            " these names",
            capability="float8",
        )
    if _count_ranks() > 0:
        raise UnsupportedError(
            f"Float8Inference.save(): {DISTRIBUTION} cannot save one of {_count_ranks()} ranks. Fix: devices=1",
            capability="float8",
        )
    if any(folder.glob("*.safetensors")):
        raise ArgumentsError(f"Float8Inference.save({str(folder)!r}): it has a model. Fix: another folder")
    saved = SavedModel.of(record, name)
    quantized = {each for each, layer in model.named_modules() if layer in inside}
    kept = [f"^{each}$" for each in saved.layers if each not in quantized]
    quantization = import_module("neural_compressor.torch.quantization")
    settings = next(iter(vars(root)["qconfig"].values())).to_dict()
    settings |= {"allowlist": {"types": [], "names": []}, "blocklist": {"types": [], "names": kept}}
    with library.on_its_device(root), _keep_settings(model):
        model.qconfig = {"": quantization.FP8Config.from_dict(settings)}
        quantization.save(model, str(folder))
    saved.write(folder / "model", finished=True)


def load_model(library: Compressor, root: torch.nn.Module, record: Measurement, folder: Path) -> str:
    """Load the quantized model in ``folder`` into the model of transformers in ``root``; return its ``hp_dtype``.

    Raises :class:`ArgumentValueError` for a folder of another chip or model, and :class:`UnsupportedError` if the
    library cannot load it here.
    """
    name, model = _find_model(root, "Float8Inference('load')")
    if record.world_size > 1:
        raise UnsupportedError(
            f"Float8Inference('load'): {DISTRIBUTION} cannot load into {record.world_size} ranks. Fix: devices=1",
            capability="float8",
        )
    wanted = SavedModel.of(record, name)
    if not wanted.path(folder / "model").is_file():
        raise ArgumentValueError(
            f"{folder} has no quantized model of Northbridge. Fix: save() of a run with stage='quantize' first"
        )
    wanted.check(folder / "model", [folder / _CONFIG, folder / "config.json"])
    settings = json.loads((folder / _CONFIG).read_text())
    written = json.loads((folder / "config.json").read_text())
    with library.on_its_device(root), _keep_settings(model), _keep_buffers(model):
        model.config.quantization_config = settings
        # A quantized layer is not tied to an embedding that is not quantized.
        model.config.tie_word_embeddings = written.get("tie_word_embeddings", False)
        quantization = import_module("neural_compressor.torch.quantization")
        device = model.device.type
        quantization.load(str(folder), original_model=model, format="huggingface", device=device)
    _reject_missing_weights(model, folder)
    for layer in converted_layers(model):
        layer.register_load_state_dict_pre_hook(reject_other_weights)  # type: ignore[no-untyped-call]
    return str(settings.get("hp_dtype", "BF16"))


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
        raise UnsupportedError(
            f"{asked}: {DISTRIBUTION} saves and loads one model of transformers, and {type(root).__name__} {there}."
            " Fix: stage='quantize'",
            capability="float8",
        )
    missing = " ".join(each for each in _NEEDED if find_spec(each) is None)
    if missing:
        raise UnsupportedError(
            f"{asked} needs {missing.replace(' ', ', ')}. Fix: install them with pip",
            capability="float8",
        )
    return next(iter(found.items()))


def _count_ranks() -> int:
    """Return how many ranks the library counts; 0 or less in a process that is not a rank."""
    ranks = import_module("neural_compressor.torch.algorithms.fp8_quant.prepare_quant.prepare_model")
    return int(ranks.get_world_size())


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
        raise ArgumentValueError(f"{folder} has no weight for {missing}. Fix: {SavedModel.again}")
