"""Names of lightning-Habana for a Trainer: the accelerator and its strategies."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import northbridge
from northbridge_hpu.data import HabanaDataLoader as HabanaDataLoader
from northbridge_hpu.settings import HPUSettings

if TYPE_CHECKING:
    import torch


class HPUAccelerator(northbridge.AcceleratorName, backend="hpu"):
    """The accelerator for HPUs: ``accelerator="hpu"``. Its class methods acquire no card."""

    @staticmethod
    def get_device_name() -> str:
        """Return the cards' name: ``GAUDI``, ``GAUDI2`` or ``GAUDI3``."""
        return northbridge.load("hpu").device.label(0)

    @staticmethod
    def is_fp8_available() -> tuple[bool, str]:
        """Return whether this machine's cards have float8, and the reason if not. Acquires no card."""
        try:
            claim = northbridge.load("hpu").present_capabilities().float8
        except northbridge.BackendError as error:  # the vendor's software is missing, or fails to load
            return False, str(error)
        return not claim.denied, claim.reason

    @staticmethod
    def is_lazy() -> bool:
        """Return True if the vendor's software runs in lazy mode."""
        northbridge.load("hpu")
        from habana_frameworks.torch.utils.internal import is_lazy

        return bool(is_lazy())


class SingleHPUStrategy(northbridge.SingleDeviceStrategyName, backend="hpu"):
    """The strategy for one HPU: ``strategy="hpu_single"``."""

    strategy_name = "hpu_single"


class HPUParallelStrategy(northbridge.DDPStrategyName, backend="hpu"):
    """The DDP strategy over HCCL under its second name: ``strategy="hpu_parallel"``. It averages gradients."""

    strategy_name = "hpu_parallel"


class HPUDDPStrategy(HPUParallelStrategy, backend="hpu"):
    """The DDP strategy over HCCL: ``strategy="hpu_ddp"``."""

    strategy_name = "hpu_ddp"


class HPUDeepSpeedStrategy(northbridge.DeepSpeedStrategyName, backend="hpu"):
    """DeepSpeed's ZeRO on HPUs: ``strategy="hpu_deepspeed"``, ``"hpu_deepspeed_stage_3"`` and so on."""

    strategy_name = "hpu_deepspeed"


class HPUDeepSpeedPrecisionPlugin(northbridge.DeepSpeedPrecisionName, backend="hpu"):
    """A precision of a run with DeepSpeed: ``precision="bf16-mixed"``.

    "fp8" and :meth:`convert_modules` raise :class:`northbridge.UnsupportedError`.
    """

    fp8_train_available = fp8_training_available = fp8_inference_available = False

    def __init__(self, precision: str | int = "32-true", *args: Any, **kwargs: Any) -> None:
        if precision == "fp8":
            self._reject("('fp8')")
        super().__init__(precision, *args, **kwargs)

    def convert_modules(self, *_: Any, **__: Any) -> NoReturn:
        """Raise :class:`northbridge.UnsupportedError`."""
        self._reject(".convert_modules()")

    def _reject(self, asked: str) -> NoReturn:
        raise northbridge.UnsupportedError(
            f"{type(self).__name__}{asked}: Northbridge has no float8 with DeepSpeed. Fix: HPUPrecisionPlugin('fp8')"
            " with strategy='hpu_ddp'",
            capability="float8",
        )


class HPUFSDPStrategy(northbridge.FSDPStrategyName, backend="hpu"):
    """Torch's first FSDP over HCCL: ``strategy="fsdp"``. It trains in 32-true unless a precision is given."""

    strategy_name = "hpu_fsdp"


class HPUCheckpointIO(northbridge.CheckpointIOName, backend="hpu"):
    """Default checkpoint plugin of every strategy on HPUs."""


class HPUPrecisionPlugin(northbridge.PrecisionName, backend="hpu"):
    """A precision on HPUs: ``precision="bf16-mixed"``. "bf16" means the same: mixed, with weights in float32.

    "fp8" trains with the vendor's Transformer Engine, as :class:`northbridge.Float8Precision` does. ``recipe`` is the
    engine's. With ``replace_layers=False`` only layers of the engine's own compute in float8. For inference in float8,
    call :meth:`convert_modules` before the Trainer is made. Raises
    :class:`northbridge.ArgumentsError` if another precision has these arguments.
    """

    positional = ("precision", "device", "recipe", "replace_layers")
    words = MappingProxyType({**northbridge.PrecisionName.words, "fp8": "transformer-engine"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.recipe = self.arguments.get("recipe")
        self.replace_layers = self.arguments.get("replace_layers", self.precision == "fp8")
        self._inference: northbridge.Float8Inference | None = None
        if self.precision != "fp8" and (self.recipe is not None or "replace_layers" in self.arguments):
            raise northbridge.ArgumentsError(
                f"{type(self).__name__}: recipe= and replace_layers= are for 'fp8', not for {self.precision!r}. Fix:"
                " leave them out"
            )

    @property
    def fp8_training_available(self) -> bool:
        """Return True if this precision trains in float8 and the machine's cards have it."""
        return self.precision == "fp8" and HPUAccelerator.is_fp8_available()[0]

    fp8_train_available = fp8_training_available
    """The name that it had in most releases."""

    @property
    def fp8_inference_available(self) -> bool:
        """Return True if :attr:`fp8_training_available` is True and Intel Neural Compressor is installed."""
        return self.fp8_training_available and find_spec("neural_compressor") is not None

    def convert_modules(
        self,
        module: torch.nn.Module,
        inference: bool = False,
        replace_layers: bool | None = None,
        recipe: Any = None,
        quant: bool | str | Mapping[str, Any] = True,
        fp8_data_path: str | None = None,
    ) -> torch.nn.Module:
        """Let the next run of ``module`` convert it at set-up, even if its Trainer was made before or without this.

        ``replace_layers`` and ``recipe`` are for training, and by default this plugin's own. With ``inference``, the
        run has a :class:`northbridge.Float8Inference`: it measures if ``quant`` is False, and quantizes if it is True.
        A path or a dict is Neural Compressor's configuration, whose ``mode`` says which. The measurements are in
        ``fp8_data_path``; without it, where the configuration says, or else in ``HABANA_LOGS``.

        Returns the module. Raises :class:`northbridge.ArgumentsError` for invalid arguments, or if a Trainer has this
        plugin and its class is a user's.
        """
        call = f"{type(self).__name__}.convert_modules()"
        if self.precision != "fp8":
            raise northbridge.ArgumentsError(
                f"{call} is for 'fp8', not for {self.precision!r}. Fix: {type(self).__name__}('fp8')"
            )
        if "arguments" not in vars(self):  # the Trainer's plugin itself
            raise northbridge.ArgumentsError(f"{call} comes too late. Fix: call it before the Trainer is made")
        if inference:
            made = _read_quant(call, quant, fp8_data_path)
            if self._inference is None or self._inference.given != made.given:
                self._inference = made
        else:
            self._inference = None
            self.replace_layers = self.replace_layers if replace_layers is None else replace_layers
            self.recipe = self.recipe if recipe is None else recipe
        self._make().use_for(module)
        return module

    def plugin(self) -> northbridge.Float8Precision | northbridge.Float8Inference | None:
        return self._make() if self.precision == "fp8" else None

    def _make(self) -> northbridge.Float8Precision | northbridge.Float8Inference:
        skip = () if self.replace_layers else _skip_all
        made = self._inference or northbridge.Float8Precision("transformer-engine", self.recipe, skip)
        made.precision = self.precision  # scripts ask whether trainer.precision is "fp8"
        return made


def _read_quant(call: str, quant: Any, folder: str | None) -> northbridge.Float8Inference:
    """Return the precision that ``quant`` means, with files that have lightning-Habana's names."""
    config = {"mode": "QUANTIZE" if quant else "MEASURE"} if isinstance(quant, bool) else quant
    if isinstance(config, (str, os.PathLike)):
        with contextlib.suppress(OSError, ValueError):  # the precision says what is wrong with it
            config = json.loads(Path(config).read_text())
    if not isinstance(config, Mapping) or str(config.get("mode")).upper() == "LOAD":
        return northbridge.Float8Inference(None, folder, config)
    own = config.get("dump_stats_path")
    base = folder or (None if own else os.environ.get("HABANA_LOGS"))
    if not own and not base:
        raise northbridge.ArgumentsError(f"{call} has no folder for measurements. Fix: fp8_data_path='measurements'")
    files = f"{base}/inc_output/measure" if base else own
    return northbridge.Float8Inference(config={**config, "dump_stats_path": files})


def _skip_all(_name: str, _layer: torch.nn.Module) -> bool:
    return True


class HPUFSDPPrecision(northbridge.FSDPPrecisionName, backend="hpu"):
    """A precision of FSDP on HPUs: ``precision="bf16-mixed"``."""


class HPUProfiler(northbridge.ProfilerName, backend="hpu"):
    """Lightning's PyTorchProfiler with the HPU's events: ``profiler="pytorch"``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        HPUSettings.read().reject_other_profiles()


_unsupported = northbridge.unsupported_names(
    __name__,
    backend="hpu",
    instead={
        "HPUDataModule": (
            "data_loaders",
            "in train_dataloader() of a LightningDataModule, return HabanaDataLoader(ImageFolder(…), batch_size=32)",
        ),
    },
)


def __getattr__(name: str) -> object:
    return HPUAccelerator.is_available() if name == "HPU_AVAILABLE" else _unsupported(name)
