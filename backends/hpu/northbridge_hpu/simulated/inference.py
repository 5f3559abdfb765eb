"""The vendor's preparation of a process for inference: switches, and batch norms that are folded into convolutions.

The simulated card computes the same with and without it.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from torch.nn import modules
from torch.nn.utils.fusion import fuse_conv_bn_eval

from northbridge_hpu.simulated.record import set_variable

switches = {"inference_mode": False, "quantization": False}
"""What this process has switched on."""


def enable_inference_mode() -> None:
    """Tell the card's compiler that weights do not change."""
    switches["inference_mode"] = True
    set_variable("PT_HPU_INFERENCE_MODE", "1")


def disable_inference_mode() -> None:
    """Tell the card's compiler that weights may change."""
    switches["inference_mode"] = False
    set_variable("PT_HPU_INFERENCE_MODE", "0")


def enable_quantization() -> None:
    """Let the card's compiler quantize."""
    switches["quantization"] = True


def disable_quantization() -> None:
    """Forbid the card's compiler to quantize."""
    switches["quantization"] = False


def hpu_set_inference_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Prepare the process, before ``model`` is moved; return it with its batch norms folded into convolutions."""
    enable_inference_mode()
    return None if model is None else _folded(model.eval())


def _folded(model: torch.nn.Module) -> torch.nn.Module:
    # Only where the order of the layers is known without a trace.
    model = copy.deepcopy(model)
    for sequence in [each for each in model.modules() if isinstance(each, torch.nn.Sequential)]:
        for (first, layer), (second, norm) in pairwise(list(sequence.named_children())):
            if isinstance(layer, modules.conv._ConvNd) and isinstance(norm, modules.batchnorm._BatchNorm):
                sequence.register_module(first, fuse_conv_bn_eval(layer, norm))
                sequence.register_module(second, torch.nn.Identity())
    return model


def hpu_set_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Prepare the process as :func:`hpu_set_inference_env` does; the older name."""
    return hpu_set_inference_env(model)


def hpu_inference_initialize(
    model: torch.nn.Module | None = None,  # noqa: ARG001 - the vendor's signature, as the next three
    mark_only_scales_as_const: bool = False,  # noqa: ARG001
    optimizer: Any = None,  # noqa: ARG001
    args: Any = None,  # noqa: ARG001
) -> None:
    """Mark the weights of ``model``, which is on the card, as constants."""
    enable_inference_mode()


def hpu_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
) -> None:
    """Mark the weights as :func:`hpu_inference_initialize` does; the older name."""
    hpu_inference_initialize(model, mark_only_scales_as_const, optimizer, args)


def hpu_teardown_inference_env() -> None:
    """End the preparation of the process."""
    disable_inference_mode()
    disable_quantization()


def hpu_reset_env() -> None:
    """End the preparation of the process; the older name."""
    hpu_teardown_inference_env()
