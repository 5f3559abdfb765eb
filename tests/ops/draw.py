"""Arguments drawn for a schema of torch's: tensors, numbers, lists and words of its types."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

SHAPES: tuple[tuple[int, ...], ...] = (
    *((4, 4), (3, 4), (4,), (2, 4, 5, 5), (2, 3, 4), (2, 4, 4), (), (2, 2, 4, 4, 4), (0, 3)),
)
DTYPES = (torch.float32,) * 6 + (torch.int64, torch.bfloat16, torch.complex64, torch.bool, torch.float64)
RESULTS = (torch.float32, torch.int64, torch.bool, torch.uint8, torch.complex64)

INDICES = {
    *("index", "indices", "target", "targets", "offsets", "pivots", "lengths", "batch_sizes", "input_lengths"),
    *("target_lengths", "crow_indices", "col_indices", "ccol_indices", "row_indices", "offset2bag", "indices_size"),
    *("compressed_indices", "plain_indices", "bag_size", "maximum_indices", "boundaries", "perm", "zero_point"),
}
CHANNELS = {
    *(
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "save_mean",
        "save_invstd",
        "save_var",
        "mean",
        "invstd",
        "rstd",
    ),
    *("scale", "zero_point", "vec", "vec2", "b_ih", "b_hh", "input_bias", "hidden_bias"),
}
MASKS = {"mask", "condition", "attn_mask", "observer_on", "fake_quant_on"}
SINGLE = {"found_inf", "grad_scale", "lr", "scale", "zero_point", "count", "total_weight", "value"}

WORDS: dict[str, tuple[str, ...]] = {
    "reduce": ("sum", "mean", "amax", "prod", "amin", "add", "multiply", "max"),
    "rounding_mode": ("floor", "trunc"),
    "interpolation": ("linear", "nearest"),
    "side": ("left", "right"),
    "norm": ("ortho", "forward"),
    "ord": ("nuc",),
    "p": ("nuc",),
    "driver": ("gels", "gelsd", "gelsy"),
    "mode": ("constant", "reflect", "reduced", "complete"),
    "pad_mode": ("reflect", "constant"),
    "padding": ("same", "valid"),
    "UPLO": ("L", "U"),
    "approximate": ("none", "tanh"),
    "equation": ("ij,jk->ik", "ij,ij", "i->i"),
    "indexing": ("ij", "xy"),
    "padding_side": ("left", "right"),
}


class Draw:
    """One call's arguments, which mostly agree in their shape and dtype."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._generator = torch.Generator().manual_seed(chance.getrandbits(32))
        self._shape = chance.choice(SHAPES)
        self._dtype = chance.choice(DTYPES)
        self._spatial = max(len(self._shape) - 2, 1) if chance.random() < 0.7 else chance.choice((1, 2, 3))
        self._sparse = chance.random() < 0.1
        self._weights = chance.choice(("channels", "kernel", "alike"))

    def arguments(self, schema: torch.FunctionSchema) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional arguments and keywords for a function of ``schema``."""
        args, kwargs = [], {}
        for argument in schema.arguments:
            value = self._argument(argument)
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    def _argument(self, argument: Any) -> Any:
        kind = str(argument.real_type)
        if argument.name == "pin_memory":  # the CPU's memory alone can be pinned
            return False
        if "Device" in kind:  # without one, a factory has no place on the chip
            return torch.device("cpu")
        if argument.has_default_value() and "Tensor" not in kind and self._chance.random() < 0.6:
            return argument.default_value
        if kind.startswith("Optional["):
            if self._chance.random() < 0.5:
                return None
            kind = kind.removeprefix("Optional[").removesuffix("]")
        return self._value(kind, argument)

    def _value(self, kind: str, argument: Any) -> Any:
        name = argument.name
        if kind == "Tensor":
            return self._result() if argument.kwarg_only and argument.is_write else self._tensor(name)
        if kind == "List[Tensor]":
            draw = self._result if argument.kwarg_only and argument.is_write else lambda: self._tensor(name)
            return [draw() for _ in range(self._chance.choice((1, 2, 2, 3)))]
        if kind == "List[Optional[Tensor]]":
            return [self._indices((3,)) for _ in range(self._chance.choice((1, 1, 2)))]
        return self._plain(kind, name)

    def _plain(self, kind: str, name: str) -> Any:
        chance = self._chance
        if kind == "List[int]":
            return self._ints(name)
        if kind in ("List[float]", "List[number]"):
            return [chance.choice((0.5, 1.0, 2.0)) for _ in range(self._spatial)]
        if kind == "List[bool]":
            return [chance.random() < 0.7 for _ in range(chance.choice((2, 3, 3, 4)))]
        choices: dict[str, tuple[Any, ...]] = {
            "int": (0, 1, 1, 2, 2, 3, 4, 8, -1),
            "float": (0.5, 1.0, 0.1, 0.0, 2.0),
            "number": (1, 2, 0.5, 0, 1.5, True),
            "bool": (True, False),
            "ScalarType": (torch.float32, torch.float32, torch.float64, torch.int64, torch.bfloat16),
            "Layout": (torch.strided,),
            "MemoryFormat": (torch.contiguous_format, torch.preserve_format, torch.channels_last),
            "str": WORDS.get(name, ("",)),
        }
        if kind == "Generator":
            return torch.Generator().manual_seed(chance.getrandbits(16))
        if kind in choices:
            return chance.choice(choices[kind])
        return None

    def _ints(self, name: str) -> list[int]:
        chance = self._chance
        if name in ("dim", "dims", "axes"):
            return chance.sample(range(max(len(self._shape), 1)), chance.randint(0, max(len(self._shape), 1)))
        if "size" in name or name in ("shape", "s"):
            if name in ("size", "shape", "input_size", "sizes", "input_sizes") and chance.random() < 0.7:
                return list(self._shape)
            if name == "normalized_shape":
                return list(self._shape[-1:])
            return [chance.choice((2, 2, 3))] * self._spatial
        if name == "stride" and chance.random() < 0.2:
            return list(torch.empty(self._shape).stride())
        length = 2 * self._spatial if name == "pad" or (name == "padding" and chance.random() < 0.3) else self._spatial
        low = {"padding": (0, 0, 1), "pad": (0, 1, 2), "output_padding": (0,), "dilation": (1, 1, 2)}
        return [chance.choice(low.get(name, (1, 1, 2)))] * length

    def _tensor(self, name: str) -> Tensor:
        chance = self._chance
        unusual = chance.random() < 0.15
        shape = chance.choice(SHAPES) if unusual else self._shape
        if not unusual and name in ("weight", "bias", *CHANNELS) and len(self._shape) > 1:
            shape = self._weight(name)
        if name in SINGLE and chance.random() < 0.7:
            shape = ()
        if name in INDICES and chance.random() < 0.9:
            return self._indices(chance.choice((shape, shape, shape[:1], (shape[0], *shape[2:]) if shape else ())))
        if name in MASKS and chance.random() < 0.8:
            return self._of(shape, torch.bool)
        tensor = self._of(shape, chance.choice(DTYPES) if chance.random() < 0.05 else self._dtype)
        if self._sparse and name in ("self", "sparse", "input", "t", "mask") and tensor.dim():
            return tensor.to_sparse().coalesce() if chance.random() < 0.7 else tensor.to_sparse()
        if tensor.dim() > 1 and chance.random() < 0.1:
            return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        return tensor

    def _weight(self, name: str) -> tuple[int, ...]:
        if self._weights == "kernel" and name == "weight":
            return (self._shape[1], self._shape[1], *(2,) * (len(self._shape) - 2))
        return self._shape if self._weights == "alike" else self._shape[1:2]

    def _of(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        if dtype is torch.bool:
            return torch.rand(shape, generator=self._generator) < 0.5
        if not dtype.is_floating_point and not dtype.is_complex:
            return torch.randint(0, 4, shape, generator=self._generator, dtype=dtype)
        drawn = torch.randn(shape, generator=self._generator, dtype=torch.complex64 if dtype.is_complex else None)
        return drawn.to(dtype)

    def _indices(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(0, 2, shape, generator=self._generator)

    def _result(self) -> Tensor:
        chance = self._chance
        dtype = self._dtype if chance.random() < 0.7 else chance.choice(RESULTS)
        return torch.empty(self._shape if chance.random() < 0.2 else (0,), dtype=dtype)
