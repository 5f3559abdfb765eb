"""The vendor's variables: what is refused, and with which words."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_sdaa.settings import SDAASettings


def test_what_is_not_set_is_nobodys_choice() -> None:
    assert set(SDAASettings.read({}).model_dump().values()) == {None}


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        (
            "SDAA_VISIBLE_DEVICES",
            "0,x",
            "a list of devices (core groups), each once, with commas between, such as 0,1,2,3",
        ),
        (
            "SDAA_VISIBLE_DEVICES",
            "1,1",
            "a list of devices (core groups), each once, with commas between, such as 0,1,2,3",
        ),
        (
            "TORCH_SDAA_ALIGN_NV_DEVICE",
            "off",
            "a100 or v100 (anything else, 0 and off too, aborts the vendor's software)",
        ),
        ("TORCH_SDAA_CONV_USE_FP32", "yes", "0 or 1"),
        ("TORCH_SDAA_CONV2D_BACKWARD_USE_FP32", "2", "0 or 1"),
        ("TORCH_SDAA_BF16_CLIP", "on", "0 or 1"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(northbridge.SettingsError) as caught:
        SDAASettings.read({variable: text})

    assert caught.value.variable == variable
    assert str(caught.value) == f"{variable}={text!r} is not {allowed}. Fix: correct or unset it"


def test_to_pass_for_cuda_is_refused() -> None:
    with pytest.raises(northbridge.SettingsError) as caught:
        SDAASettings.read({"TORCH_SDAA_AUTOLOAD": "cuda_migrate"}).reject_migration()

    assert str(caught.value) == ("TORCH_SDAA_AUTOLOAD=cuda_migrate fakes CUDA. Fix: unset it")


@pytest.mark.parametrize("text", ["", "something_new"])
def test_what_else_is_loaded_with_torch_is_the_vendors_affair(text: str) -> None:
    SDAASettings.read({"TORCH_SDAA_AUTOLOAD": text}).reject_migration()
