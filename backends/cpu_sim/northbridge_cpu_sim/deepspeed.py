"""DeepSpeed's accelerator for the simulated chip. Its import brings DeepSpeed.

DeepSpeed documents none of these methods beyond their names. Each forwards to ``torch.cpu_sim``, as DeepSpeed's own
accelerators do to their device modules; a device index of None means the current device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed
from deepspeed.accelerator.abstract_accelerator import (  # pyright: ignore[reportMissingImports]  # in .engines
    DeepSpeedAccelerator,
)
from deepspeed.ops.op_builder import cpu  # pyright: ignore[reportMissingImports]  # in .engines

_FOR_HOSTS = ("CPUAdagradBuilder", "CPUAdamBuilder", "CPULionBuilder")
"""The operators that step optimizers in host memory."""


def _of_device(name: str) -> Callable[..., Any]:
    def forward(self: SimAccelerator, device_index: int | None = None) -> Any:
        return getattr(self._chip, name)(device_index)

    return forward


def _of_module(name: str) -> Callable[..., Any]:
    def forward(self: SimAccelerator, *args: Any) -> Any:
        return getattr(self._chip, name)(*args)

    return forward


def _no(self: SimAccelerator) -> bool:  # noqa: ARG001  # a method
    return False


def _tensor_of(dtype: torch.dtype) -> Any:
    return property(lambda self: partial(torch.tensor, dtype=dtype, device=self._name))


class SimAccelerator(DeepSpeedAccelerator):  # type: ignore[misc]  # DeepSpeed is not among what mypy sees
    """The simulated chip, as DeepSpeed sees it."""

    def __init__(self) -> None:
        # Made when the chip is loaded, under the name that torch then has for it.
        self._name = torch._C._get_privateuse1_backend_name()
        self._chip: Any = torch.get_device_module(self._name)
        self._communication_backend_name = torch.distributed.get_default_backend_for_device(self._name)
        self._compile_backend: str | None = "aot_eager"

    # Its work is on streams, like a GPU's.
    is_synchronized_device = use_host_timers = resolves_data_dependency = handles_memory_backpressure = _no

    current_device = _of_module("current_device")
    device_count = _of_module("device_count")
    is_available = _of_module("is_available")
    set_device = _of_module("set_device")
    synchronize = _of_device("synchronize")

    def device_name(self, device_index: int | None = None) -> str:
        return self._name if device_index is None else f"{self._name}:{device_index}"

    def device(self, device_index: int | None = None) -> Any:
        return self._chip.device(self._chip.current_device() if device_index is None else device_index)

    def current_device_name(self) -> str:
        return self.device_name(self._chip.current_device())

    get_rng_state = _of_device("get_rng_state")
    initial_seed = _of_module("initial_seed")
    manual_seed = _of_module("manual_seed")
    manual_seed_all = _of_module("manual_seed_all")
    set_rng_state = _of_module("set_rng_state")

    def random(self) -> Any:
        return torch.random

    def default_generator(self, device_index: int) -> torch.Generator:
        generator: torch.Generator = self._chip.default_generators[device_index]
        return generator

    Stream = property(lambda self: self._chip.Stream)
    Event = property(lambda self: self._chip.Event)
    stream = _of_module("stream")
    current_stream = _of_device("current_stream")
    default_stream = _of_device("default_stream")

    empty_cache = _of_module("empty_cache")
    memory_stats = _of_device("memory_stats")
    memory_allocated = _of_device("memory_allocated")
    max_memory_allocated = _of_device("max_memory_allocated")
    memory_reserved = memory_cached = _of_device("memory_reserved")
    max_memory_reserved = max_memory_cached = _of_device("max_memory_reserved")
    reset_peak_memory_stats = reset_max_memory_allocated = reset_max_memory_cached = _of_device(
        "reset_peak_memory_stats"
    )

    def total_memory(self, device_index: int | None = None) -> int:
        return int(self._chip.mem_get_info(device_index)[1])

    def available_memory(self, device_index: int | None = None) -> int:
        return int(self._chip.mem_get_info(device_index)[0])

    def is_bf16_supported(self) -> bool:
        return True

    is_fp16_supported = is_bf16_supported

    def supported_dtypes(self) -> list[torch.dtype]:
        return [torch.float, torch.half, torch.bfloat16]

    BFloat16Tensor = _tensor_of(torch.bfloat16)
    ByteTensor = _tensor_of(torch.uint8)
    DoubleTensor = _tensor_of(torch.double)
    FloatTensor = _tensor_of(torch.float)
    HalfTensor = _tensor_of(torch.half)
    IntTensor = _tensor_of(torch.int)
    LongTensor = _tensor_of(torch.long)

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == self._name

    def range_push(self, msg: str, domain: object = None, category: object = None) -> None:
        """Mark nothing: the chip has no tool that shows ranges."""

    def range_pop(self, domain: object = None) -> None:
        """Mark nothing."""

    def lazy_call(self, callback: Callable[[], Any]) -> Any:
        return callback()

    def communication_backend_name(self) -> str:
        return self._communication_backend_name

    is_triton_supported = _no

    def create_graph(self) -> None:
        """Return None, as DeepSpeed's accelerators without graphs do."""

    def capture_to_graph(
        self, graph: object, pool: object = None, stream: object = None
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def replay_graph(self, graph: object) -> None:
        """Replay nothing."""

    def op_builder_dir(self) -> str:
        return str(cpu.__name__)

    def get_op_builder(self, class_name: str) -> Any:
        if class_name == "FusedAdamBuilder":
            return FusedAdamBuilder
        return getattr(cpu, class_name) if class_name in _FOR_HOSTS else cpu.NotImplementedBuilder

    def create_op_builder(self, class_name: str) -> Any:
        return self.get_op_builder(class_name)()

    def build_extension(self) -> Any:
        from torch.utils.cpp_extension import BuildExtension

        return BuildExtension

    def export_envs(self) -> list[str]:
        return ["NORTHBRIDGE"]

    def visible_devices_envs(self) -> list[str]:
        return []

    def set_visible_devices_envs(self, current_env: dict[str, str], local_accelerator_ids: list[int]) -> None:
        """Set nothing: no variable hides devices of the chip."""

    def get_compile_backend(self) -> str | None:
        return self._compile_backend

    def set_compile_backend(self, backend: str) -> None:
        self._compile_backend = backend


class FusedAdamBuilder(cpu.NotImplementedBuilder):  # type: ignore[misc]  # as above
    """DeepSpeed's Adam, for an ``optimizer`` in its configuration, by torch's fused kernel."""

    def load(self, verbose: bool = True) -> Any:  # DeepSpeed's
        return self

    @staticmethod
    def multi_tensor_adam(
        _chunk_size: int,
        _overflow: torch.Tensor,
        tensors: list[list[torch.Tensor]],
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        step: int,
        decoupled: int,
        _bias_correction: int,
        weight_decay: float,
    ) -> None:
        gradients, parameters, means, squares = tensors
        steps = [torch.tensor(float(step), device=each.device) for each in parameters]
        kernels: Any = torch
        kernel = kernels._fused_adamw_ if decoupled else kernels._fused_adam_
        kernel(
            parameters,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            weight_decay=weight_decay,
            eps=eps,
            amsgrad=False,
            maximize=False,
        )
