"""``nn.TransformerEncoder`` on a chip without nested tensors."""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


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
