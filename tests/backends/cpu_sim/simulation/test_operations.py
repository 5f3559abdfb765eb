"""A simulated device may lack single operations, wholly or for some dtypes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

OnFlint = Callable[..., list[str]]


def test_lacking_operation_is_refused_in_the_vendors_words(on_flint: OnFlint) -> None:
    said = on_flint(
        """
        install(device)
        square = torch.ones(1, 2, 2, device="flint")
        refused(lambda: square.cumsum(0))
        refused(lambda: torch.cumsum(square, 0, out=square.clone()))
        refused(lambda: torch.sort(square, stable=True))
        refused(lambda: torch.bmm(square.bfloat16(), square.bfloat16()))
        refused(lambda: torch.bmm(square, square).sum().item())
        refused(lambda: torch.bmm(square.cpu().bfloat16(), square.cpu().bfloat16()).sum().item())
        square.requires_grad_()
        refused(lambda: torch.cumsum(square, 0))
        """
    )

    assert said == [
        "RuntimeError: flint has no cumsum",
        "RuntimeError: flint has no cumsum",
        "RuntimeError: flint sorts no ties",
        "RuntimeError: flint has no bmm for bfloat16",
        "worked 8.0",
        "worked 8.0",
        "RuntimeError: flint has no cumsum",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten::cumsun", "lacks_operations names 'aten::cumsun', which torch lacks: did you mean aten::cumsum"),
        (
            "fft_fft",
            "lacks_operations names 'aten::fft_fft', which torch composes. Fix: name",
        ),
        ("aten::copy_", "lacks_operations names 'aten::copy_', which every chip needs. Fix: name one"),
    ],
)
def test_a_name_that_takes_nothing_away_is_refused(on_flint: OnFlint, name: str, said: str) -> None:
    ended = on_flint(
        f"""
        refused(lambda: install(device.model_copy(update={{"lacks_operations": {{{name!r}: "none"}}}})))
        refused(lambda: install(device))
        """
    )

    assert ended[0].startswith("DeviceFileError: the simulated device 'flint': " + said)
    assert ended[1].startswith("worked")  # nothing had been changed
