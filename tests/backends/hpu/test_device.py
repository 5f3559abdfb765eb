"""The card of a process: taking it, naming it, and what is known of it and the others before."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch import nn

import northbridge
from northbridge_hpu import cards

LOAD = "import northbridge\nbackend = northbridge.load('hpu')\nimport os, torch\n"
TAKE = "backend.bridge.prepare_rank(index={0}, local_rank=0, world_size=1)\nbackend.device.select({0})\n"
TRY = """
try:
    {take}
except northbridge.NorthbridgeError as error:
    print(type(error).__name__, error)
"""


def last(said: str) -> str:
    return said.strip().splitlines()[-1]


def attempt(take: str) -> str:
    return TRY.format(take=take.strip().replace("\n", "\n    "))


class TestTakingACard:
    def test_a_process_calls_its_card_0_and_has_no_second(self, run: Run) -> None:
        ask = TAKE.format(5) + (
            "print(backend.device.root(5), torch.ones(2, device='hpu').device)\n"
            "backend.device.synchronize()\n"
            "print(set(backend.device.memory_stats(5)) > {'Limit', 'InUse', 'MaxInUse', 'NumAllocs', 'NumFrees'})\n"
        )

        assert run(ask + attempt(TAKE.format(2)), first=LOAD).strip().splitlines()[-3:] == [
            "hpu:0 hpu:0",
            "True",
            (
                "WrongDeviceError this process holds device 5 of 'hpu', not 2. Fix: use another process,"
                " or `if trainer.is_global_zero:`"
            ),
        ]

    @pytest.mark.parametrize("words", ["acquire failed. No devices found.", "[Device not found] acquire"])
    def test_a_card_that_is_not_there_is_not_said_to_be_held(self, run: Run, words: str) -> None:
        fail = f"""
def fail():
    raise RuntimeError({words!r})
torch.hpu.current_device = fail
"""

        assert last(run(fail + attempt(TAKE.format(0)), first=LOAD)) == (
            f"DetectionError device 0 of 'hpu' (HLS_MODULE_ID=0) could not be acquired: {words.rstrip('.')}."
            " Fix: see hl-smi, and give the container the card"
        )


NOT_WITH_TORCH = {"PT_HPU_AUTOLOAD": "0"}
"""In eager mode `import torch` imports the vendor's package too, before anything else can happen."""


QUESTIONS = """
import contextlib, torch
from torch.utils.data import DataLoader
print(torch.accelerator.is_available(), torch.accelerator.current_accelerator(True), torch.accelerator.device_count())
print(torch.get_default_device(), torch.ones(1).is_pinned(), len(list(DataLoader(torch.ones(2, 1), pin_memory=True))))
with contextlib.suppress(RuntimeError):
    torch.accelerator.current_device_index()
"""


SET_UP = """
from northbridge.lightning.pytorch import Accelerator
Accelerator('hpu').setup_device(torch.device('hpu'))
"""
CPU_BACKWARD = "import torch\ntorch.ones(1, requires_grad=True).sum().backward()\n"


def test_after_cpu_backward_it_is_an_error_with_the_fix(run: Run) -> None:
    said = last(run(attempt(SET_UP), first=QUESTIONS + CPU_BACKWARD + LOAD, **NOT_WITH_TORCH))

    assert said.startswith("SoftwareLoadError 'hpu' was loaded too late: a backward() ran before")
    assert "Fix: `import northbridge; northbridge.load('hpu')` at the top of the script" in said


def test_where_torch_was_asked_first_it_trains_all_the_same(run: Run) -> None:
    """torch keeps its first answer about the accelerator; many a script, and many a library, asks at its import."""
    train = SET_UP + (
        "layer = torch.nn.Linear(2, 1, bias=False).to('hpu')\n"
        "(layer(torch.ones(1, 2).to('hpu')) + layer(torch.ones(1, 2).to('hpu'))).sum().backward()\n"
        "print(torch.accelerator.current_accelerator(), torch.accelerator.is_available(), layer.weight.grad)"
    )

    said = run(train, first=QUESTIONS + LOAD, **NOT_WITH_TORCH).splitlines()

    assert {"False None 0", "cpu False 2"} < set(said)
    assert said[-1] == "hpu True tensor([[2., 2.]], device='hpu:0')"


class TestWhatIsKnownWithoutTakingACard:
    @pytest.mark.parametrize(
        ("environ", "known"),
        [
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "1"}, "GAUDI no no yes (torch.bfloat16,)"),
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "2"}, "GAUDI2 yes yes yes (torch.bfloat16, torch.float16)"),
            (
                {"NORTHBRIDGE_HPU_SIM_GENERATION": "3", "PT_HPU_LAZY_MODE": "1"},
                "GAUDI3 yes no no (torch.bfloat16, torch.float16)",
            ),
        ],
        ids=["first generation", "second, eager", "third, lazy"],
    )
    def test_its_name_and_the_claims_that_it_decides(self, run: Run, environ: dict[str, str], known: str) -> None:
        ask = (
            "here = backend.present_capabilities()\n"
            "claims = [here.claims()[name].answer for name in ('float16', 'int64', 'data_loaders')]\n"
            "print(backend.device.label(0), *claims, backend.device.autocast_dtypes(), torch.hpu.is_initialized())"
        )

        assert last(run(ask, first=LOAD, **environ)) == f"{known} False"

    @pytest.mark.usefixtures("hpu")
    def test_an_unknown_claim_names_its_source(self) -> None:
        claims = northbridge.load("hpu").present_capabilities().claims()
        unknown = {name: claim for name, claim in claims.items() if claim.answer == "unknown"}

        assert [name for name, claim in unknown.items() if "https://" not in claim.reason] == []

    def test_how_many_there_are(self, run: Run) -> None:
        ask = "print(northbridge.available()['hpu'], backend.device.count(), torch.hpu.is_initialized())"

        assert last(run(ask, first=LOAD)) == "8 8 False"
        assert last(run(ask, first=LOAD, HABANA_VISIBLE_MODULES="2,3")) == "2 2 False"


def test_a_precision_it_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning.pytorch import Trainer

    with pytest.raises(northbridge.UnsupportedError) as wide:
        Trainer(accelerator="hpu", devices=1, precision="64-true", logger=False)
    monkeypatch.setattr(northbridge.get("hpu").device, "generation", 1)
    with pytest.raises(northbridge.UnsupportedError) as half:
        Trainer(accelerator="hpu", devices=1, precision="16-mixed", logger=False)

    assert str(wide.value) == (
        "precision='64-true': 'hpu' has no float64: it is stored as float64 and computed as float32 there. Fix:"
        " precision='32-true'"
    )
    assert str(half.value) == (
        "precision='16-mixed': 'hpu' has no float16: the first generation of Gaudi has none. Fix:"
        " precision='bf16-mixed'"
    )


NO_SPARSE = "'hpu' has no sparse tensors (Unrecognized tensor type ID: SparseHPU). Fix:"
NOT_THERE: dict[str, Callable[[], nn.Module]] = {
    f"'layer' is Embedding(sparse=True), but {NO_SPARSE} sparse=False, and Adam instead of SparseAdam": (
        lambda: nn.Embedding(4, 2, sparse=True)
    ),
    f"the parameter 'layer.edges' is sparse, but {NO_SPARSE} to_dense()": (
        lambda: nn.ParameterDict({"edges": nn.Parameter(torch.eye(2).to_sparse(), False)})
    ),
    (
        "the parameter 'layer.weight' is complex64, but 'hpu' cannot hold it (Complex datatype is not supported on HPU"
        " device). Fix: torch.view_as_real()"
    ): lambda: nn.Linear(2, 2, dtype=torch.complex64),
}


@pytest.mark.parametrize(("said", "make"), NOT_THERE.items(), ids=["sparse gradients", "sparse", "complex"])
@pytest.mark.usefixtures("hpu")
def test_tensors_that_it_does_not_have_are_refused(said: str, make: Callable[[], nn.Module]) -> None:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="hpu", devices=1)
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)

    with pytest.raises(northbridge.UnsupportedError) as caught:
        fabric.setup(nn.ModuleDict({"layer": make()}), optimizer)

    assert str(caught.value) == said


# Facts from the vendor's management library, without acquiring a card


def test_each_card_has_an_index_a_module_and_a_name() -> None:
    found = cards.cards()

    assert [card.index for card in found] == list(range(8))
    assert sorted(card.module for card in found) == list(range(8))
    assert [card.module for card in found] != list(range(8))
    assert {(card.name, card.total) for card in found} == {("HL-225", 96 * 2**30)}
    assert {card.used for card in found} <= {768 * 2**20, 96 * 2**30}  # this process may hold one
    assert cards.visible_modules() == tuple(sorted(card.module for card in found)) == tuple(range(8))


def test_a_card_that_is_sick_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyhlml

    def fail(device: object) -> None:
        raise pyhlml.HLMLError(1)

    monkeypatch.setattr(pyhlml, "hlmlDeviceGetMemoryInfo", fail)

    assert [(card.used, card.is_held) for card in cards.cards()] == [(None, False)] * 8
    assert cards.visible_modules() == tuple(range(8))


def test_detection_asks_a_card_for_its_module_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyhlml

    for asked in ("Name", "MemoryInfo", "UtilizationRates"):
        monkeypatch.delattr(pyhlml, f"hlmlDeviceGet{asked}")

    assert northbridge.get("hpu").bridge.detect() == 8


def test_a_library_that_the_script_has_opened_stays_open() -> None:
    import pyhlml

    pyhlml.hlmlInit()
    try:
        assert len(cards.cards()) == 8
        assert pyhlml.hlmlDeviceGetCount() == 8
        assert cards.versions() == {"driver": "1.22.0-0000000", "hlml": "hl-1.22.0-simulated"}
    finally:
        pyhlml.hlmlShutdown()


def test_without_the_library_the_users_modules_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyhlml", None)  # how Python marks what is not there
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5")
    assert cards.visible_modules() == (4, 5)

    monkeypatch.delenv("HABANA_VISIBLE_MODULES")
    with pytest.raises(northbridge.SoftwareMissingError) as caught:
        cards.visible_modules()

    assert str(caught.value) == (
        "the cards' module ids are unknown. Fix: pip install habana-pyhlml, or set HABANA_VISIBLE_MODULES"
    )


def test_a_driver_that_does_not_answer_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyhlml

    def fail() -> None:
        raise pyhlml.HLMLError(1)

    monkeypatch.setattr(pyhlml, "hlmlInit", fail)

    with pytest.raises(northbridge.DetectionError, match="the HPU's driver does not answer: HLMLError"):
        cards.cards()
