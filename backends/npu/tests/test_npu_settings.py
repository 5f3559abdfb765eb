"""The variable that chooses NPUs."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_npu.settings import NPUSettings

NAME = "ASCEND_RT_VISIBLE_DEVICES"


def test_a_list_is_read() -> None:
    assert NPUSettings.read({NAME: "0,2,5"}).ascend_rt_visible_devices == (0, 2, 5)
    assert NPUSettings.read({}).ascend_rt_visible_devices is None


@pytest.mark.parametrize("text", ["0,0", "a", "0;1", "-1", "all"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(northbridge.SettingsError) as refusal:
        NPUSettings.read({NAME: text})

    assert str(refusal.value) == (
        f"{NAME}={text!r} is not a list of NPUs in ascending order, each once, with commas between, such as 0,1,2,3."
        " Fix: correct or unset it"
    )


def test_a_list_out_of_order_is_refused() -> None:
    with pytest.raises(northbridge.SettingsError) as refusal:
        NPUSettings.read({NAME: "2,0"}).reject_disorder()

    assert str(refusal.value) == f"{NAME}=2,0 is not in ascending order. Fix: write 0,2"
    assert refusal.value.variable == NAME


def test_fewer_npus_than_named_are_refused() -> None:
    settings = NPUSettings.read({NAME: "0,1,9"})

    settings.reject_absent(3)
    with pytest.raises(northbridge.SettingsError) as refusal:
        settings.reject_absent(2)

    assert str(refusal.value) == f"{NAME}=0,1,9 names 3 NPUs; torch.npu counts 2. Fix: see npu-smi info"
