from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pydantic
import pytest
from typing_extensions import Self

from northbridge.errors import SettingsError
from northbridge.settings import CoreSettings, Indices, Settings


class AcmeSettings(Settings):
    """Settings as a vendor writes them."""

    prefix = "NORTHBRIDGE_ACME_"

    devices: int = pydantic.Field(default=8, ge=1, le=64, description="a whole number from 1 to 64")
    memory: pydantic.ByteSize = pydantic.Field(default=pydantic.ByteSize(2**30), description="a size")
    lazy: bool = pydantic.Field(default=False, description="1 or 0")


class LooseAcmeSettings(AcmeSettings):
    strict_prefix = False


class SharedAcmeSettings(LooseAcmeSettings):
    near_misses = False


class PairedSettings(Settings):
    prefix = "NORTHBRIDGE_PAIRED_"

    low: int = pydantic.Field(default=1, description="a whole number")
    high: int = pydantic.Field(default=2, description="a whole number")

    @pydantic.model_validator(mode="after")
    def low_is_below_high(self) -> Self:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        return self


class Chosen(Settings):
    prefix = "CHOSEN_"
    cards: Indices | None = pydantic.Field(default=None, description="a list of cards, each once")


ACME, PAIRED = "NORTHBRIDGE_ACME_", "NORTHBRIDGE_PAIRED_"


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        pytest.param({}, (8, 2**30, False), id="defaults"),
        pytest.param(
            {f"{ACME}DEVICES": "2", f"{ACME}MEMORY": "512MiB", f"{ACME}LAZY": "1"}, (2, 2**29, True), id="each its own"
        ),
        pytest.param({f"{ACME}DEVICES": "", f"{ACME}DEVICE": ""}, (8, 2**30, False), id="an empty one is unset"),
        pytest.param({"NORTHBRIDGE_OTHER_DEVICES": "x", "ACME_DEVICES": "y"}, (8, 2**30, False), id="of others"),
    ],
)
def test_each_field_is_read_from_its_variable(environ: dict[str, str], found: tuple[object, ...]) -> None:
    settings = AcmeSettings.read(environ)

    assert (settings.devices, settings.memory, settings.lazy) == found
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        settings.devices = 3


UNSET = "Fix: correct or unset it"
OF_DEVICES = f"is not a whole number from 1 to 64. {UNSET} (default: 8)"
MISSPELT = "is not a setting: did you mean {}?"
REFUSED: list[tuple[type[Settings], str, list[str], str]] = [
    (AcmeSettings, "DEVICES", ["many", "0", "65", "-1", "2.5"], OF_DEVICES),
    (SharedAcmeSettings, "DEVICES", ["many"], OF_DEVICES),
    (AcmeSettings, "MEMORY", ["much"], f"is not a size. {UNSET} (default: 1.0GiB)"),
    (AcmeSettings, "DEVICE", ["4"], MISSPELT.format(f"{ACME}DEVICES")),
    (LooseAcmeSettings, "DEVICE", ["4"], MISSPELT.format(f"{ACME}DEVICES")),
    (PairedSettings, "SOMETHING_ELSE_ALTOGETHER", ["4"], f"is not a setting: there are {PAIRED}HIGH, {PAIRED}LOW"),
    (PairedSettings, "LOW", ["5"], "is not allowed: Value error, low must be below high"),
    (Chosen, "CARDS", ["0,0", "-1", "0,", "a", "0;1", "1.5"], f"is not a list of cards, each once. {UNSET}"),
    (
        *(CoreSettings, "DISABLE", ["0", "true", "All", "acme,,other", "1,acme", "acme other", ","]),
        f"is not 1 (all), or names of backends with commas between. {UNSET}",
    ),
    (CoreSettings, "SIMULATE", ["1", "acme,other", "true"], f"is not the name of one simulated backend. {UNSET}"),
    (
        *(CoreSettings, "DETECT_TIMEOUT", ["0", "nan", "inf", "soon", "-3"]),
        f"is not a number of seconds above 0 and up to 3600. {UNSET} (default: 20.0)",
    ),
    (
        *(CoreSettings, "FLIGHT_RECORDER_CALLS", ["9"]),
        f"is not a whole number from 10 to 1000000. {UNSET} (default: 2000)",
    ),
    (CoreSettings, "DISABLES", ["1"], MISSPELT.format("NORTHBRIDGE_DISABLE")),
    (CoreSettings, "SIMLATE", ["1"], MISSPELT.format("NORTHBRIDGE_SIMULATE")),
    (CoreSettings, "DETECT_TIME_OUT", ["1"], MISSPELT.format("NORTHBRIDGE_DETECT_TIMEOUT")),
]


@pytest.mark.parametrize(
    ("settings", "field", "text", "message"), [(*row, text, said) for *row, texts, said in REFUSED for text in texts]
)
def test_a_wrong_variable_is_refused(settings: type[Settings], field: str, text: str, message: str) -> None:
    """Without a traceback of pydantic."""
    variable = settings.prefix + field
    with pytest.raises(SettingsError) as caught:
        settings.read({variable: text})

    assert (str(caught.value), caught.value.variable) == (f"{variable}={text!r} {message}", variable)
    assert caught.value.__suppress_context__ or "is not a setting" in message


@pytest.mark.parametrize(
    ("settings", "other"), [(LooseAcmeSettings, "FIRMWARE"), (SharedAcmeSettings, "DEVICE")], ids=["unlike", "alike"]
)
def test_a_loose_prefix_lets_other_variables_pass(settings: type[AcmeSettings], other: str) -> None:
    assert settings.read({f"{ACME}{other}": "4", f"{ACME}DEVICES": "2"}).devices == 2


def test_field_without_a_description_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Nameless\.devices needs a default and a description"):

        class Nameless(Settings):
            prefix: ClassVar[str] = "NORTHBRIDGE_NAMELESS_"
            devices: int = 8


@pytest.mark.parametrize(
    ("text", "off"), [("", []), ("acme, other", ["acme", "other"]), ("1", ["acme", "other", "third"])]
)
def test_disable_switches_off_exactly_those(text: str, off: list[str]) -> None:
    settings = CoreSettings.read({"NORTHBRIDGE_DISABLE": text})

    assert [name for name in ("acme", "other", "third") if settings.disables(name)] == off


def test_the_core_reads_its_variables_and_no_backends() -> None:
    core = {"SIMULATE": "acme", "DETECT_TIMEOUT": "0.5", "FLIGHT_RECORDER": "a/folder"}
    others = {"ACME_DEVICES": "many", "ACME_SIMULATE": "x"}
    settings = CoreSettings.read({f"NORTHBRIDGE_{name}": text for name, text in {**core, **others}.items()})

    assert (settings.simulate, settings.detect_timeout, settings.flight_recorder) == ("acme", 0.5, Path("a/folder"))
    default = CoreSettings()
    assert CoreSettings.read({}) == default
    found = (default.detect_timeout, default.flight_recorder, default.flight_recorder_calls)
    assert found == (20.0, None, 2000)


def test_value_written_for_the_vendor_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user sets afterwards is read."""
    monkeypatch.setattr(os, "environ", {})
    AcmeSettings.write("devices", "2")

    assert (os.environ["NORTHBRIDGE_ACME_DEVICES"], AcmeSettings.read().devices) == ("2", 8)
    os.environ["NORTHBRIDGE_ACME_DEVICES"] = "3"
    assert AcmeSettings.read().devices == 3


@pytest.mark.parametrize(("text", "indices"), [("3", (3,)), ("0,1,2", (0, 1, 2)), (" 2, 0 ", (2, 0))])
def test_a_list_of_indices_is_read_in_its_order(text: str, indices: tuple[int, ...]) -> None:
    assert Chosen.read({"CHOSEN_CARDS": text}).cards == indices
