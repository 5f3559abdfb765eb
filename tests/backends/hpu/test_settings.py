"""The vendor's variables: what is allowed, and what is said of the rest."""

from __future__ import annotations

import pytest

from northbridge import SettingsError
from northbridge_hpu.settings import KNOWN_SUBSETS, HPUSettings


def test_each_is_read_from_the_vendors_variable() -> None:
    settings = HPUSettings.read(
        {
            "HABANA_VISIBLE_MODULES": "3,1",
            "HABANA_VISIBLE_DEVICES": "0,2",
            "HLS_MODULE_ID": "5",
            "PT_HPU_LAZY_MODE": "1",
            # The vendor's many other variables are left alone.
            "PT_HPU_LAZY_ACC_PAR_MODE": "0",
            "HABANA_LOGS": "/tmp",
            "HABANA_VISIBLE_MODULE": "x",
        }
    )

    assert settings.habana_visible_modules == (3, 1)
    assert settings.habana_visible_devices == (0, 2)
    assert settings.hls_module_id == 5
    assert settings.pt_hpu_lazy_mode == "1"
    assert HPUSettings.read({"HABANA_VISIBLE_DEVICES": "all"}).habana_visible_devices == "all"  # the containers' word


MODULES = "a list of module ids, each once, with commas between, such as 0,1,2,3"


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        *(("HABANA_VISIBLE_MODULES", text, MODULES) for text in ("0,one", "0,0", "-1,0", "all", "0;1")),
        ("HABANA_VISIBLE_DEVICES", "some", "'all', or a list of indices, each once, with commas between"),
        ("HLS_MODULE_ID", "first", "one module id, a whole number from 0"),
        ("PT_HPU_LAZY_MODE", "2", "0 (eager) or 1 (lazy)"),
        ("PT_HPU_GPU_MIGRATION", "maybe", "0 or 1"),
    ],
)
def test_what_is_allowed_is_said(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        HPUSettings.read({variable: text})

    assert caught.value.variable == variable
    assert str(caught.value).startswith(f"{variable}={text!r} is not {allowed}. Fix: correct or unset it")


def test_an_empty_lazy_mode_is_refused() -> None:
    """The vendor's software compares the text with "0" alone, so that an empty one is lazy mode."""
    with pytest.raises(SettingsError) as caught:
        HPUSettings.read({"PT_HPU_LAZY_MODE": ""})

    assert caught.value.variable == "PT_HPU_LAZY_MODE"
    assert str(caught.value) == (
        "PT_HPU_LAZY_MODE='' means lazy mode to the vendor. Fix: unset it, or write 0 (eager) or 1 (lazy)"
    )


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("PT_HPU_GPU_MIGRATION", "redirects torch.cuda to the HPU, and 'nccl' to 'hccl'"),
        ("PT_HPU_EMULATE_DISTRIBUTED", "skips collectives"),
    ],
)
def test_deceiving_switch_is_refused_by_name(variable: str, why: str) -> None:
    settings = HPUSettings.read({variable: "1"})

    with pytest.raises(SettingsError) as caught:
        settings.reject_misleading_switches()

    assert caught.value.variable == variable
    assert str(caught.value) == f"{variable} {why}. Fix: unset it"


def test_documented_sets_of_modules_are_allowed() -> None:
    for known in (*KNOWN_SUBSETS, "6"):  # in any order, and one alone
        modules = tuple(int(module) for module in reversed(known.split(",")))
        HPUSettings(habana_visible_modules=modules).reject_unknown_subset(modules)
    HPUSettings().reject_unknown_subset((0, 2))  # what the machine has is not the user's choice


@pytest.mark.parametrize("modules", [(0, 2), (1, 2), (0, 1, 2), (2, 3, 4, 5), (0, 1, 2, 3, 4, 5)])
def test_undocumented_modules_are_refused(modules: tuple[int, ...]) -> None:
    settings = HPUSettings(habana_visible_modules=modules)

    with pytest.raises(SettingsError) as caught:
        settings.reject_unknown_subset(modules)

    assert str(caught.value) == (
        f"HABANA_VISIBLE_MODULES={','.join(map(str, modules))!r} is not one of the vendor's sets:"
        " 0,1; 2,3; 4,5; 6,7; 0,1,2,3; 4,5,6,7; 0,1,2,3,4,5,6,7"
    )
