"""The blocks of a model, which are sharded one by one."""

from __future__ import annotations

import pytest
from torch import nn

import northbridge
from northbridge.lightning.blocks import named_blocks, repeated_blocks


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


class Encoder(Decoder):
    pass


class Transformer(nn.Module):
    """Lists the classes of its blocks, as models of transformers do; the list of an inner model counts too."""

    def __init__(self, names: object) -> None:
        super().__init__()
        self._no_split_modules = names
        self.embedding = nn.Embedding(2, 2)
        self.body = nn.ModuleList([Decoder(), nn.Sequential(Encoder()), Decoder()])


@pytest.mark.parametrize(
    ("names", "found"),
    [(["Decoder"], "Decoder Decoder"), ({"Decoder", "Encoder"}, "Decoder Encoder Decoder"), (None, ""), ([], "")],
)
def test_a_models_own_list_names_its_blocks(names: object, found: str) -> None:
    model = nn.Sequential(Transformer(names))

    assert " ".join(type(each).__name__ for each in named_blocks(model)) == found
    assert len(repeated_blocks(model)) == 2  # without the list, those of one class


def test_a_block_inside_of_a_block_is_left_to_it() -> None:
    outer = Decoder()
    outer.inner = Decoder()

    assert named_blocks(nn.Sequential(Transformer(["Decoder"]), outer))[-1] is outer


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(northbridge.ArgumentsError) as refusal:
        northbridge.shard_blocks(nn.Linear(2, 2))

    assert str(refusal.value) == "no block is named or repeated. Fix: fully_shard(layer)"
