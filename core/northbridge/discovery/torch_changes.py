"""All that Northbridge changes of torch in a process, and the changes that are made when a backend is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import update_wrapper, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TorchChange:
    """A function, a setting or kernels of torch that Northbridge replaces."""

    changed: str
    """Its name in torch; of kernels, the operators."""

    place: str
    """The function that changes it, as ``module:function`` in this package."""

    reason: str
    condition: str
    undoing: str


TORCH_CHANGES = (
    TorchChange(
        "aten::_has_compatible_shallow_copy_type",
        "discovery.torch_changes:keep_parameters_when_moved",
        "module.to() makes new parameters on a device of torch's spare type: tied weights come apart, and an optimizer"
        " made before trains nothing",
        "a loaded chip has torch's spare type and kernels for views, and the vendor has registered no kernel",
        "never: the kernel is asked about tensors of the spare type alone",
    ),
    TorchChange(
        "torch.nn.TransformerEncoder.forward",
        "discovery.torch_changes:do_without_nested_tensors",
        "packs padded sequences into a nested tensor, which fails on the chip, or leaves other numbers in the padding",
        "a loaded chip has no kernels for nested tensors",
        "never: torch's own runs for every other device",
    ),
    TorchChange(
        "torch.optim.swa_utils.get_swa_multi_avg_fn",
        "discovery.torch_changes:average_integers_one_by_one",
        "averages integers in a call that raises an error for them on accelerators",
        "a backend is loaded",
        "never: torch's own averages all other tensors",
    ),
    TorchChange(
        "c10d::*",
        "flight_recorder.recording.recorder:observe",
        "the recorder has to see every call of torch.distributed, and those of DDP in C++",
        "NORTHBRIDGE_FLIGHT_RECORDER names a folder",
        "never: each kernel hands its call on to the one below",
    ),
    TorchChange(
        "torch.distributed.split_group",
        "host_collective.process_group:reject_split_group",
        "asks a group for its device before it asks whether it can be split, and its error is about devices",
        "a loaded chip has HostCollective",
        "never: torch's own splits every other group",
    ),
    TorchChange(
        "torch.load",
        "lightning.plugins.load_and_save:ThreadOverride.use",
        "a vendor's replacement may run the code of a file, and a damaged file raises whatever it leads to",
        "a thread reads a checkpoint on a chip",
        "by the last thread that reads, unless another has replaced it meanwhile; other threads call the former one",
    ),
    TorchChange(
        "torch.save",
        "lightning.plugins.load_and_save:ThreadOverride.use",
        "a vendor's replacement writes a file that opens only with the vendor's software",
        "a thread writes a checkpoint, and a vendor has replaced torch.save",
        "by the last thread that writes, unless another has replaced it meanwhile; other threads call the former one",
    ),
    TorchChange(
        "torch.distributed.*.__defaults__",
        "lightning.strategies.user_classes:_forget",
        "functions that torch imports after Ray has begun a group have that group as a default",
        "a worker of Ray Train has a group over Gloo, which cannot send the chip's tensors",
        "never: the group is destroyed, and None means the default group",
    ),
    TorchChange(
        "torch.use_deterministic_algorithms",
        "lightning.strategies.deepspeed_accelerator:Determinism.apply",
        "importing an accelerator of DeepSpeed's may turn deterministic algorithms on for the whole process",
        "DeepSpeed is imported, or a strategy of DeepSpeed runs",
        "after the import, and by the strategy's teardown()",
    ),
    TorchChange(
        "torch.utils.deterministic.fill_uninitialized_memory",
        "lightning.strategies.deepspeed_accelerator:Determinism.apply",
        "an accelerator of DeepSpeed's sets it with the deterministic algorithms",
        "DeepSpeed is imported, or a strategy of DeepSpeed runs",
        "after the import, and by the strategy's teardown()",
    ),
)
"""Every change; no other code of the core changes torch."""


def keep_parameters_when_moved(device_type: str) -> None:
    """Let ``module.to()`` keep its parameters on torch's spare device type.

    Its tensors count as incompatible with the CPU's, so that parameters would be made anew. torch has an operator for
    the answer; it is registered here unless the vendor has registered it. A chip whose tensors are of a Python class
    has no kernels for views of its own: a parameter would keep the shape of such a tensor, and lose its numbers.
    """
    import torch

    operator, key = "_has_compatible_shallow_copy_type", "PrivateUse1"
    if torch._C._get_privateuse1_backend_name() != device_type:
        return
    is_registered = torch._C._dispatch_has_kernel_for_dispatch_key
    if is_registered(f"aten::{operator}", key) or not is_registered("aten::as_strided", key):
        return
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # torch's
    library.impl(operator, lambda _tensor, _other: True, key)  # type: ignore[no-untyped-call]  # torch's
    _libraries.append(library)


# A collected Library removes its kernels.
_libraries: list[object] = []


def average_integers_one_by_one() -> None:
    """Let an averaged model average its integers on the chip as on the CPU.

    On accelerators torch averages a list of tensors in one call, ``addcdiv``, which raises an error for integers.
    """
    from torch.optim import swa_utils

    stock: Any = swa_utils.get_swa_multi_avg_fn
    one_by_one: Any = swa_utils.get_swa_avg_fn

    @wraps(stock)
    def get_swa_multi_avg_fn() -> Any:
        average_list: Any = stock()
        average: Any = one_by_one()

        def swa_update(averaged: list[Tensor], current: list[Tensor], num_averaged: Tensor | int) -> None:
            if averaged[0].is_floating_point() or averaged[0].is_complex():
                average_list(averaged, current, num_averaged)
                return
            for kept, new in zip(averaged, current, strict=True):
                kept.copy_(average(kept, new, num_averaged))

        return swa_update

    swa_utils.get_swa_multi_avg_fn = get_swa_multi_avg_fn


def do_without_nested_tensors(device_type: str) -> None:
    """Let ``nn.TransformerEncoder`` pad instead of nest on the chip, unless the chip has nested tensors.

    In evaluation torch packs padded sequences into a nested tensor, on the CPU and on every device of its spare type,
    and leaves zeros where the padding was. A chip without nested tensors fails there, or leaves other numbers in the
    padding.
    """
    if has_nested_tensors(device_type):
        return
    from torch.nn.modules import transformer

    stock: Any = transformer.TransformerEncoder.forward

    def forward(
        self: Any,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Any:
        if src.device.type == device_type and mask is None and src_key_padding_mask is not None:
            padding = src_key_padding_mask.bool()
            if would_nest(self, src, padding):
                return encode_padded(self, src, padding)
        return stock(self, src, mask, src_key_padding_mask, is_causal)

    # torch.jit.script reads the source of torch's function, and looks up its names among these globals.
    names = {**vars(transformer), "would_nest": would_nest, "encode_padded": encode_padded}
    replaced: Any = FunctionType(forward.__code__, names, stock.__name__, forward.__defaults__, forward.__closure__)
    transformer.TransformerEncoder.forward = update_wrapper(replaced, stock)  # type: ignore[method-assign]


def has_nested_tensors(device_type: str) -> bool:
    """Return True if torch has kernels for nested tensors on this device, the vendor's or its own."""
    return has_kernel("aten::to_padded_tensor", "NestedTensor", device_type)


def has_kernel(operator: str, kind: str, device_type: str) -> bool:
    """Return True if ``operator`` has a kernel for tensors of ``kind`` on the chip, the vendor's or torch's."""
    import torch

    try:
        key = kind + torch._C._dispatch_key_for_device(device_type)
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator, key))
    except RuntimeError:  # torch has no such key
        return False


def would_nest(encoder: Any, src: Tensor, padding: Tensor) -> bool:
    """Return True if torch would nest ``src`` on the CPU; these are torch's conditions."""
    import torch

    first = encoder.layers[0]
    tensors = (src, *first.parameters())
    return (
        torch.backends.mha.get_fastpath_enabled()
        and getattr(encoder, "use_nested_tensor", False)
        and not first.training
        and src.dim() == 3
        and not torch.is_autocast_enabled()
        and not torch.overrides.has_torch_function(tensors)
        and not (torch.is_grad_enabled() and any(each.requires_grad for each in tensors))
        and (not getattr(encoder, "mask_check", True) or _is_behind(padding))
    )


def encode_padded(encoder: Any, src: Tensor, padding: Tensor) -> Tensor:
    """Encode as ``encoder`` does with nested tensors: zeros in the padding, before the norm."""
    output = src
    for layer in encoder.layers:
        output = layer(output, src_mask=None, is_causal=False, src_key_padding_mask=padding)
    output = output.masked_fill(padding.unsqueeze(-1), 0.0)
    return output if encoder.norm is None else encoder.norm(output)


def _is_behind(padding: Tensor) -> bool:
    """Return True if no sequence goes on after padding; False while torch traces, because then it does not nest."""
    import torch

    if torch.compiler.is_compiling():
        return False
    return not bool((padding[:, :-1] & ~padding[:, 1:]).any())
