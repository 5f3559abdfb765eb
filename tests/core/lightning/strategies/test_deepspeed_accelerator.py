"""DeepSpeed's accelerators, before a run begins."""

from __future__ import annotations

import os

import pytest

import northbridge
from northbridge.lightning.strategies.deepspeed_accelerator import check_builders


class _Asking:
    """An accelerator whose builders read a variable, and know some names, as they are made."""

    def create_op_builder(self, name: str) -> str:
        return os.environ["ACME_HOME"] + {"ShareMemCommBuilder": "/ops"}[name]


class _KnowingNone(_Asking):
    def create_op_builder(self, name: str) -> str:
        return super().create_op_builder(f"No{name}")


def test_a_variable_that_builders_need_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a KeyError of DeepSpeed's own, in the midst of the start of the process group."""
    backend = northbridge.get("cpu_sim")
    monkeypatch.setenv("ACME_HOME", "/acme")
    check_builders(backend, _Asking())

    monkeypatch.delenv("ACME_HOME")
    with pytest.raises(northbridge.VariableError) as refusal:
        check_builders(backend, _Asking())

    assert str(refusal.value) == (
        "DeepSpeed on 'cpu_sim' needs ACME_HOME, which is not set. Fix: source the vendor's set-up script"
    )
    assert refusal.value.variable == "ACME_HOME"


def test_an_error_about_another_name_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_HOME", "/acme")

    with pytest.raises(KeyError, match="NoShareMemCommBuilder"):
        check_builders(northbridge.get("cpu_sim"), _KnowingNone())
