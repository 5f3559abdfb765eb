"""torchao as an engine, where it is missing."""

from __future__ import annotations

import sys

import pytest

import northbridge


def test_a_missing_torchao_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)

    with pytest.raises(northbridge.UnsupportedError) as caught:
        northbridge.TorchAO().read_recipe(None)

    assert str(caught.value) == (
        "float8 training with engine='torchao' needs torchao, which is not installed. Fix: pip install torchao"
    )
    assert caught.value.capability == "float8"
