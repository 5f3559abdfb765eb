"""Settings of the simulated server."""

from __future__ import annotations

from pathlib import Path

import pytest

import northbridge
from northbridge_hpu.simulated.machine import HPUSimSettings


def read(**fields: str) -> HPUSimSettings:
    return HPUSimSettings.read({HPUSimSettings.variable(name): text for name, text in fields.items()})


def test_default_is_a_second_generation_card() -> None:
    settings = read()
    assert (settings.generation, settings.release) == ("2", "1.22")
    assert settings.folder == read().folder


def test_another_folder_is_another_server(tmp_path: Path) -> None:
    assert read(server=str(tmp_path)).folder == tmp_path


@pytest.mark.parametrize(
    ("field", "text", "allowed"),
    [
        ("generation", "4", "1, 2 or 3"),
        ("release", "1.20", "a release of the vendor's software"),
        ("modules", "0,0,1", "a permutation such as 1,0,3,2"),
        ("modules", "a,b", "a permutation such as 1,0,3,2"),
        ("server", "here", "the absolute path of a folder"),
        ("server", __file__, "the absolute path of a folder"),
        ("server", f"{__file__}/below", "the absolute path of a folder"),
    ],
)
def test_what_is_not_allowed_is_refused(field: str, text: str, allowed: str) -> None:
    with pytest.raises(northbridge.SettingsError) as refused:
        read(**{field: text})
    assert f"{HPUSimSettings.variable(field)}={text!r} is not " in str(refused.value)
    assert allowed in str(refused.value)


def test_modules_of_another_number_than_the_cards_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from northbridge_hpu.simulated.machine import module_ids

    monkeypatch.setenv("NORTHBRIDGE_HPU_SIM_MODULES", "1,0")
    with pytest.raises(northbridge.SettingsError, match=r"MODULES='1,0' names 2 of 8 cards"):
        module_ids()
