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


def refusal(settings: type[Settings], environ: dict[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        settings.read(environ)
    return caught.value


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = AcmeSettings.read({})

    assert (settings.devices, settings.memory, settings.lazy) == (8, 2**30, False)


def test_each_field_is_read_from_its_variable() -> None:
    settings = AcmeSettings.read(
        {"NORTHBRIDGE_ACME_DEVICES": "2", "NORTHBRIDGE_ACME_MEMORY": "512MiB", "NORTHBRIDGE_ACME_LAZY": "1"}
    )

    assert (settings.devices, settings.memory, settings.lazy) == (2, 2**29, True)


def test_without_an_argument_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_ACME_DEVICES", "3")

    assert AcmeSettings.read().devices == 3


def test_an_empty_variable_counts_as_unset_even_if_it_is_unknown() -> None:
    settings = AcmeSettings.read({"NORTHBRIDGE_ACME_DEVICES": "", "NORTHBRIDGE_ACME_DEVICE": ""})

    assert settings.devices == 8


def test_other_variables_are_left_alone() -> None:
    settings = AcmeSettings.read({"NORTHBRIDGE_OTHER_DEVICES": "x", "ACME_DEVICES": "y"})

    assert settings == AcmeSettings()


@pytest.mark.parametrize("text", ["many", "0", "65", "-1", "2.5"])
def test_wrong_value_is_refused_with_what_is_allowed(text: str) -> None:
    error = refusal(AcmeSettings, {"NORTHBRIDGE_ACME_DEVICES": text})

    assert str(error) == (
        f"NORTHBRIDGE_ACME_DEVICES={text!r} is not a whole number from 1 to 64. Fix: correct or unset it (default: 8)"
    )
    assert error.variable == "NORTHBRIDGE_ACME_DEVICES"


def test_a_wrong_size_names_the_default_as_a_size() -> None:
    error = refusal(AcmeSettings, {"NORTHBRIDGE_ACME_MEMORY": "much"})

    assert str(error).endswith("is not a size. Fix: correct or unset it (default: 1.0GiB)")


def test_a_wrong_value_shows_no_traceback_of_pydantic() -> None:
    error = refusal(AcmeSettings, {"NORTHBRIDGE_ACME_DEVICES": "many"})

    assert error.__suppress_context__


def test_misspelt_variable_is_refused_with_the_nearest() -> None:
    error = refusal(AcmeSettings, {"NORTHBRIDGE_ACME_DEVICE": "4"})

    assert str(error) == ("NORTHBRIDGE_ACME_DEVICE='4' is not a setting: did you mean NORTHBRIDGE_ACME_DEVICES?")
    assert error.variable == "NORTHBRIDGE_ACME_DEVICE"


def test_unlike_variable_is_refused_with_the_list() -> None:
    error = refusal(PairedSettings, {"NORTHBRIDGE_PAIRED_SOMETHING_ELSE_ALTOGETHER": "4"})

    assert str(error).endswith("is not a setting: there are NORTHBRIDGE_PAIRED_HIGH, NORTHBRIDGE_PAIRED_LOW")


def test_a_loose_prefix_lets_unknown_variables_pass() -> None:
    environ = {"NORTHBRIDGE_ACME_FIRMWARE": "4", "NORTHBRIDGE_ACME_DEVICES": "2"}

    assert LooseAcmeSettings.read(environ).devices == 2


def test_a_loose_prefix_still_refuses_what_looks_misspelt() -> None:
    error = refusal(LooseAcmeSettings, {"NORTHBRIDGE_ACME_DEVICE": "4"})

    assert str(error) == "NORTHBRIDGE_ACME_DEVICE='4' is not a setting: did you mean NORTHBRIDGE_ACME_DEVICES?"


def test_others_near_misses_pass_and_fields_are_read() -> None:
    environ = {"NORTHBRIDGE_ACME_DEVICE": "4", "NORTHBRIDGE_ACME_DEVICES": "2"}

    assert SharedAcmeSettings.read(environ).devices == 2


def test_wrong_value_is_refused_though_near_misses_pass() -> None:
    error = refusal(SharedAcmeSettings, {"NORTHBRIDGE_ACME_DEVICES": "many"})

    assert error.variable == "NORTHBRIDGE_ACME_DEVICES"


def test_values_that_contradict_each_other_are_all_named() -> None:
    error = refusal(PairedSettings, {"NORTHBRIDGE_PAIRED_LOW": "5"})

    assert str(error) == "NORTHBRIDGE_PAIRED_LOW='5' is not allowed: Value error, low must be below high"
    assert error.variable == "NORTHBRIDGE_PAIRED_LOW"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        AcmeSettings().devices = 3


def test_field_without_a_description_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Nameless\.devices needs a default and a description"):

        class Nameless(Settings):
            prefix: ClassVar[str] = "NORTHBRIDGE_NAMELESS_"
            devices: int = 8


def test_nothing_is_disabled_by_default() -> None:
    assert not CoreSettings.read({}).disables("acme")


def test_disable_takes_names_and_switches_off_exactly_those() -> None:
    settings = CoreSettings.read({"NORTHBRIDGE_DISABLE": "acme, other"})

    assert [settings.disables(name) for name in ("acme", "other", "third")] == [True, True, False]


def test_disable_1_switches_off_everything() -> None:
    assert CoreSettings.read({"NORTHBRIDGE_DISABLE": "1"}).disables("whatever")


@pytest.mark.parametrize("text", ["0", "true", "All", "acme,,other", "1,acme", "acme other", ","])
def test_disable_refuses_what_is_not_a_list_of_names(text: str) -> None:
    error = refusal(CoreSettings, {"NORTHBRIDGE_DISABLE": text})

    assert str(error) == (
        f"NORTHBRIDGE_DISABLE={text!r} is not 1 (all), or names of "
        "backends with commas between. Fix: correct or unset it"
    )


def test_simulate_takes_one_name() -> None:
    assert CoreSettings.read({"NORTHBRIDGE_SIMULATE": "acme"}).simulate == "acme"


@pytest.mark.parametrize("text", ["1", "acme,other", "true"])
def test_simulate_refuses_what_is_not_one_name(text: str) -> None:
    error = refusal(CoreSettings, {"NORTHBRIDGE_SIMULATE": text})

    assert f"{text!r} is not the name of one simulated backend" in str(error)


def test_the_detection_has_a_time_limit_in_seconds() -> None:
    assert CoreSettings.read({}).detect_timeout == 20.0
    assert CoreSettings.read({"NORTHBRIDGE_DETECT_TIMEOUT": "0.5"}).detect_timeout == 0.5


@pytest.mark.parametrize("text", ["0", "nan", "inf", "soon", "-3"])
def test_a_wrong_time_limit_is_refused(text: str) -> None:
    error = refusal(CoreSettings, {"NORTHBRIDGE_DETECT_TIMEOUT": text})

    assert f"={text!r} is not a number of seconds above 0" in str(error)


def test_flight_recorder_has_a_folder_and_a_call_count() -> None:
    settings = CoreSettings.read({"NORTHBRIDGE_FLIGHT_RECORDER": "a/folder"})

    assert (settings.flight_recorder, settings.flight_recorder_calls) == (Path("a/folder"), 2000)
    assert CoreSettings.read({}).flight_recorder is None
    error = refusal(CoreSettings, {"NORTHBRIDGE_FLIGHT_RECORDER_CALLS": "9"})
    assert "NORTHBRIDGE_FLIGHT_RECORDER_CALLS='9' is not a whole number from 10 to 1000000" in str(error)


def test_the_core_leaves_the_variables_of_backends_alone() -> None:
    settings = CoreSettings.read({"NORTHBRIDGE_ACME_DEVICES": "many", "NORTHBRIDGE_ACME_SIMULATE": "x"})

    assert settings == CoreSettings()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NORTHBRIDGE_DISBLE", "NORTHBRIDGE_DISABLE"),
        ("NORTHBRIDGE_SIMLATE", "NORTHBRIDGE_SIMULATE"),
        ("NORTHBRIDGE_DETECT_TIME_OUT", "NORTHBRIDGE_DETECT_TIMEOUT"),
    ],
)
def test_a_variable_of_the_core_that_is_misspelt_is_refused(written: str, meant: str) -> None:
    error = refusal(CoreSettings, {written: "1"})

    assert str(error) == f"{written}='1' is not a setting: did you mean {meant}?"


def test_value_written_for_the_vendor_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})

    AcmeSettings.write("devices", "2")

    assert os.environ["NORTHBRIDGE_ACME_DEVICES"] == "2"
    assert AcmeSettings.read().devices == 8


def test_what_the_user_sets_afterwards_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    AcmeSettings.write("devices", "2")

    os.environ["NORTHBRIDGE_ACME_DEVICES"] = "3"

    assert AcmeSettings.read().devices == 3


class Chosen(Settings):
    prefix = "CHOSEN_"
    cards: Indices | None = pydantic.Field(default=None, description="a list of cards, each once")


@pytest.mark.parametrize(("text", "indices"), [("3", (3,)), ("0,1,2", (0, 1, 2)), (" 2, 0 ", (2, 0))])
def test_a_list_of_indices_is_read_in_its_order(text: str, indices: tuple[int, ...]) -> None:
    assert Chosen.read({"CHOSEN_CARDS": text}).cards == indices


@pytest.mark.parametrize("text", ["0,0", "-1", "0,", "a", "0;1", "1.5"])
def test_a_wrong_list_of_indices_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Chosen.read({"CHOSEN_CARDS": text})

    assert str(caught.value).startswith(f"CHOSEN_CARDS={text!r} is not a list of cards, each once. Fix:")
