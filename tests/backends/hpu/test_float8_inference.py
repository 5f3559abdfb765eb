"""Intel Neural Compressor, the real one, on the simulated Gaudi; and the operators that its models call."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from tests.backends.hpu.test_neural_compressor import MODELS
from tests.docs.page import ROOT
from tests.engines import needs_engines, with_engines
from tests.scripts import Ran, run_script

import northbridge
import northbridge_hpu
from northbridge_hpu.trainer import HPUPrecisionPlugin

SCRIPT = ROOT / "docs" / "scripts" / "float8_errors.py"


@needs_engines
def test_inc_measures_and_quantizes_within_the_range_of_the_card(tmp_path: Path) -> None:
    environ = with_engines({**os.environ, "NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path)})
    ran = run_script(SCRIPT, "measure", str(tmp_path), folder=tmp_path, environ=environ)

    found: dict[str, list[float | None]] = json.loads(_last_line(ran))
    assert sorted(path.suffix for path in tmp_path.rglob("inc_hooks_maxabs.*")) == [".json"] * 18 + [".npz"] * 18
    for method in ("maxabs_hw", "maxabs_pow2", "maxabs_arbitrary"):
        assert all(error is not None and 0.005 < error < 0.06 for error in found[method]), found[method]
    unscaled = found["unit_scale"][-1]
    assert unscaled is not None
    assert unscaled > 0.08  # inputs of 300 are cut at 240


@pytest.mark.parametrize(("generation", "largest"), [(2, 240.0), (3, 448.0)])
def test_a_cast_ends_where_the_generation_does(
    hpu: object, monkeypatch: pytest.MonkeyPatch, generation: int, largest: float
) -> None:
    from habana_frameworks.torch.utils.experimental import _set_is_dynamic_quantization

    monkeypatch.setenv("NORTHBRIDGE_HPU_SIM_GENERATION", str(generation))
    wide = torch.tensor([1.0, -1000.0], device="hpu")

    found, amax = torch.ops.hpu.cast_to_fp8_v2(wide, None, False, True, torch.float8_e4m3fn)
    halved, _ = torch.ops.hpu.cast_to_fp8_v2.scalar(wide, 0.5, False, False, torch.float8_e4m3fn)
    again = torch.ops.hpu.cast_from_fp8(halved, torch.tensor(2.0, device="hpu"), torch.bfloat16)

    _set_is_dynamic_quantization(True)  # which a cast does not depend on
    dynamic, _ = torch.ops.hpu.cast_to_fp8_v2(wide, None, False, False, torch.float8_e4m3fn)

    assert found.float().tolist() == dynamic.float().tolist() == [1.0, -largest]
    assert amax.item() == 1000
    assert again.tolist() == [1.0, -2 * largest]


def test_a_product_has_its_scales_and_its_bias(hpu: object) -> None:
    left, right = (torch.full((2, 2), 2.0, device="hpu").to(torch.float8_e4m3fn) for _ in range(2))
    bias, before = torch.ones(2, device="hpu"), torch.ones(2, 2, device="hpu")

    found = torch.ops.hpu.fp8_gemm_v2.scalar(left, False, right, True, before, torch.float32, 0.5, 3.0, bias, True)

    assert found.tolist() == [[14.0, 14.0], [14.0, 14.0]]


RUN = """
import json, os, sys, warnings
from pathlib import Path
import northbridge
from northbridge_hpu import HPUPrecisionPlugin

NAME = sys.argv[1]
WORDS = torch.randint(32, (8, 8), generator=torch.Generator().manual_seed(3))

def run(plugin, model, rows=ROWS, **arguments):
    trainer = pl.Trainer(accelerator=NAME, plugins=[plugin], **QUIET, **arguments)
    return trainer, torch.cat(trainer.predict(model, torch.utils.data.DataLoader(rows, 8))).cpu().double()

def by_one_trainer():
    model, plugin = Module(), HPUPrecisionPlugin("fp8")
    trainer = pl.Trainer(accelerator=NAME, devices=1, **QUIET)  # made before, and without the plugin
    for quant in (False, True):
        plugin.convert_modules(model, inference=True, quant=quant, fp8_data_path="shared")
        outputs = trainer.predict(model, torch.utils.data.DataLoader(ROWS, 8))
    return trainer, torch.cat(outputs).cpu().double(), model

def as_in_lightning_habana(quant, **arguments):
    model, plugin = Module(), HPUPrecisionPlugin("fp8")
    model = plugin.convert_modules(model, inference=True, quant=quant, fp8_data_path="shared")
    return (*run(plugin, model, **arguments), model)

warnings.simplefilter("ignore")
exact = Module().net.double()(ROWS.double()).detach()
found = {}
def error(outputs, wanted=exact):
    return ((outputs - wanted).norm() / wanted.norm()).item()
if NAME == "cpu":
    run(northbridge.Float8Inference("measure", "cpu"), Module(), devices=1)
    found["error"] = error(run(northbridge.Float8Inference("quantize", "cpu"), Module(), devices=1)[1])
else:
    if "LOCAL_RANK" not in os.environ:
        trainer, outputs, model = by_one_trainer()
        found["error"] = error(outputs)
        found["plugin"] = [isinstance(trainer.precision_plugin, each)
                           for each in (HPUPrecisionPlugin, northbridge.Float8Inference)]
        found["outputs"] = str(model.net[0].weight.dtype)
        written = json.dumps({"mode": "QUANTIZE", "dump_stats_path": "shared/inc_output/measure", "use_qdq": True,
                              "scale_method": "maxabs_arbitrary", "scale_format": "const"})
        Path("config.json").write_text(written)
        plugin = HPUPrecisionPlugin("fp8")
        model = plugin.convert_modules(Module(), inference=True, quant="config.json")
        found["from a file"] = error(run(plugin, model, devices=1)[1])
        found["unchanged"] = Path("config.json").read_text() == written
        run(northbridge.Float8Inference("measure", "llama"), Llama(5), rows=WORDS, devices=1)
        config = {"mode": "QUANTIZE", "dump_stats_path": "llama/measure"}
        plugin, model = HPUPrecisionPlugin("fp8"), Llama(5)
        plugin.convert_modules(model, inference=True, quant=config)
        trainer, wanted = run(plugin, model, rows=WORDS, devices=1)
        trainer.precision_plugin.save("saved")
        plugin = HPUPrecisionPlugin("fp8")
        model = plugin.convert_modules(Llama(7), inference=True, quant={"mode": "LOAD"}, fp8_data_path="saved")
        found["loaded"] = [torch.equal(wanted, run(plugin, model, rows=WORDS, devices=1)[1]),
                           str(model.net.lm_head.weight.dtype)]
        device = northbridge.get("hpu").device
        device.generation = 3
        try:
            as_in_lightning_habana(True, devices=1)
        except northbridge.ArgumentValueError as refused:
            found["generation"] = str(refused)
        try:
            run(northbridge.Float8Inference("load", "saved"), Llama(7), rows=WORDS, devices=1)
        except northbridge.ArgumentValueError as refused:
            found["saved"] = str(refused)
        device.generation = 2
    as_in_lightning_habana(False, devices=2, strategy="hpu_ddp")
    trainer, outputs, _ = as_in_lightning_habana(True, devices=2, strategy="hpu_ddp")
    found["in a rank"] = error(outputs, exact[trainer.global_rank::2])
    if trainer.global_rank == 0:
        found["files"] = sorted(path.name for path in Path("shared/inc_output").glob("*_2[._]*"))
if "LOCAL_RANK" not in os.environ or trainer.global_rank == 0:
    print(json.dumps(found))
"""


@needs_engines
def test_lightning_habanas_calls_measure_and_quantize(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(MODELS + RUN)

    cpu, card = (
        json.loads(_last_line(run_script(script, name, folder=tmp_path, environ=with_engines())))
        for name in ("cpu", "hpu")
    )

    assert abs(card["error"] - cpu["error"]) < 0.01
    assert max(cpu["error"], card["error"], card["from a file"], card["in a rank"]) < 0.065  # as in float8-errors.md
    assert card["plugin"] == [True, True]
    assert card["outputs"] == "torch.float8_e4m3fn"
    assert card["unchanged"]
    assert card["files"] == [
        *(f"measure_hooks_maxabs_{rank}_2{end}" for rank in (0, 1) for end in (".json", ".npz", "_mod_list.json")),
        *(f"measure_hooks_maxabs_MAXABS_HW_{rank}_2{end}" for rank in (0, 1) for end in (".json", ".npz")),
        *(f"northbridge_measure_{rank}_2.json" for rank in (0, 1)),
    ]
    assert card["loaded"] == [True, "torch.float8_e4m3fn"]
    assert card["saved"] == (
        f"northbridge_model_0_1.json in {tmp_path / 'saved'} was saved with the device GAUDI2, and this run has GAUDI3."
        " Fix: save it again, after a run with stage='quantize'"
    )
    assert card["generation"] == (
        f"northbridge_measure_0_1.json in {tmp_path / 'shared' / 'inc_output'} was measured with the device GAUDI2, and"
        " this run has GAUDI3. Fix: measure again with stage='measure'"
    )


def _last_line(ran: Ran) -> str:
    assert ran.status == 0, ran.said
    return next(line for line in ran.said.splitlines() if line.startswith("{"))


@pytest.mark.parametrize(
    ("quant", "wanted"),
    [
        (False, ("measure", "shared/inc_output")),
        (True, ("quantize", "shared/inc_output")),
        ({"mode": "MEASURE", "observer": "maxabs"}, ("measure", "shared/inc_output")),
        ({"mode": "QUANTIZE", "dump_stats_path": "own/net"}, ("quantize", "shared/inc_output")),
        ({"mode": "LOAD"}, ("load", "shared")),
    ],
)
def test_convert_modules_keeps_its_arguments_for_the_run(quant: Any, wanted: tuple[str, str]) -> None:
    plugin, model = northbridge_hpu.HPUPrecisionPlugin("fp8"), torch.nn.Linear(1, 1)

    assert plugin.convert_modules(model, inference=True, quant=quant, fp8_data_path="shared") is model
    kept = plugin.plugin()

    assert isinstance(kept, northbridge.Float8Inference)
    assert (kept.stage, str(kept.folder)) == wanted


def test_the_vendors_folder_for_logs_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HABANA_LOGS", "logs")
    (tmp_path / "config.json").write_text('{"mode": "QUANTIZE"}')
    measure = {"mode": "MEASURE"}
    quants: list[Any] = [False, measure, str(tmp_path / "config.json"), {**measure, "dump_stats_path": "own/measure"}]

    found = []
    for quant in quants:
        plugin = northbridge_hpu.HPUPrecisionPlugin("fp8")
        plugin.convert_modules(torch.nn.Linear(1, 1), inference=True, quant=quant)
        kept = plugin.plugin()
        assert isinstance(kept, northbridge.Float8Inference)
        found.append(str(kept.folder))

    assert found == [*["logs/inc_output"] * 3, "own"]
    assert measure == {"mode": "MEASURE"}


def _convert(plugin: northbridge_hpu.HPUPrecisionPlugin, *, inference: bool = True, **arguments: Any) -> str:
    with pytest.raises(northbridge.ArgumentsError) as caught:
        plugin.convert_modules(torch.nn.Linear(1, 1), inference, **arguments)
    return str(caught.value)


class Own(HPUPrecisionPlugin):
    """A precision that a user has derived."""


def test_convert_modules_refuses_what_it_could_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HABANA_LOGS", raising=False)
    call = "HPUPrecisionPlugin.convert_modules()"
    used: Any = Own("fp8")
    Trainer(accelerator="hpu", devices=1, plugins=used, logger=False)

    for inference in (False, True):
        assert _convert(northbridge_hpu.HPUPrecisionPlugin("bf16"), inference=inference) == (
            f"{call} is for 'fp8', not for 'bf16-mixed'. Fix: HPUPrecisionPlugin('fp8')"
        )
    assert _convert(used, fp8_data_path="m") == (
        "Own.convert_modules() comes too late. Fix: call it before the Trainer is made"
    )
    assert _convert(northbridge_hpu.HPUPrecisionPlugin("fp8"), quant=False) == (
        f"{call} has no folder for measurements. Fix: fp8_data_path='measurements'"
    )
    assert _convert(northbridge_hpu.HPUPrecisionPlugin("fp8"), quant="nowhere.json").startswith(
        "Float8Inference(config='nowhere.json') cannot be read: "
    )
    assert _convert(northbridge_hpu.HPUPrecisionPlugin("fp8"), quant={}, fp8_data_path="m") == (
        "Float8Inference(): stage=, or the mode of config=, is one of 'measure', 'quantize', 'load'"
    )
