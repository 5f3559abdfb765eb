"""Intel Neural Compressor, the real one, which quantizes and dequantizes on the simulated chip and on the CPU."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.engines import needs_engines, with_engines
from tests.scripts import run_script

import northbridge
from northbridge_hpu.neural_compressor import NeuralCompressor


def test_a_missing_library_is_refused_with_the_pip_line() -> None:
    with pytest.raises(northbridge.UnsupportedError) as caught:
        NeuralCompressor.library("Float8Inference()")

    assert str(caught.value) == (
        "Float8Inference() needs neural-compressor-pt, which is not installed. Fix: pip install neural-compressor-pt"
    )


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("northbridge_hpu.neural_compressor.sys.version_info", (3, 10, 14))
    monkeypatch.setattr("northbridge_hpu.neural_compressor.sys.version", "3.10.14 (main)")

    with pytest.raises(northbridge.UnsupportedError, match=r"needs Python 3\.11, and this is 3\.10\.14\. Fix: "):
        NeuralCompressor.library("Float8Inference()")


MODELS = """
import lightning.pytorch as pl
import torch

ROWS = torch.randn(32, 32, generator=torch.Generator().manual_seed(3))
QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
INTERRUPTED = False

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.net = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16))
    def predict_step(self, batch, index):
        if INTERRUPTED and index == 1:
            raise RuntimeError("interrupted")
        return self.net(batch)
    def training_step(self, batch, index):
        return self.net(batch).float().sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

class Llama(pl.LightningModule):
    def __init__(self, seed=5, layers=1):
        super().__init__()
        import transformers
        torch.manual_seed(seed)
        small = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
        self.net = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small, num_hidden_layers=layers))
    def predict_step(self, batch, index):
        return self.net(batch).logits
"""

RUN = """
import json, os, sys, warnings
from pathlib import Path
from lightning.fabric import Fabric
import northbridge
from northbridge import Float8Inference

def run(*arguments, chip="cpu_sim", devices=1, model=None, how="predict", rows=ROWS):
    model = model or Module()
    try:
        plugin = arguments[0] if len(arguments) == 1 else Float8Inference(*arguments)
        trainer = pl.Trainer(accelerator=chip, devices=devices, plugins=plugin, **QUIET)
        found = getattr(trainer, how)(model, torch.utils.data.DataLoader(rows, 8))
        return torch.cat(found).cpu().double()
    except (northbridge.NorthbridgeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"

def said(call, *arguments):
    try:
        call(*arguments)
    except northbridge.NorthbridgeError as error:
        return f"{type(error).__name__}: {error}"

def save_and_load():
    words = torch.randint(32, (8, 8), generator=torch.Generator().manual_seed(3))
    found = {}
    configs = {"plain": {"blocklist": {"types": [], "names": ["^net.lm_head$"]}},
               "by channel": {"hp_dtype": "FP32", "scale_method": "ACT_MAXABS_POW2_WEIGHTS_PCS_MAXABS_POW2"}}
    for chip, name in [("cpu_sim", "plain"), ("cpu_sim", "by channel"), ("cpu", "plain")]:
        folder, config = f"{chip} {name}", configs[name]
        run("measure", folder, config, chip=chip, model=Llama(), rows=words)
        plugin, quantized = Float8Inference("quantize", folder, config), Llama()
        wanted = run(plugin, chip=chip, model=quantized, rows=words)
        plugin.save(f"{folder}, saved")
        loaded = Llama(seed=6)
        equal = torch.equal(wanted, run("load", f"{folder}, saved", chip=chip, model=loaded, rows=words))
        kinds = [[type(each).__name__ for each in model.modules()] for model in (quantized, loaded)]
        found[folder] = [equal, kinds[0] == kinds[1], type(loaded.net.lm_head).__name__,
                         "quantization_config" in vars(loaded.net.config)]
    found["again"] = said(plugin.save, "cpu plain, saved")
    found["chip"] = run("load", "cpu plain, saved", model=Llama(), rows=words)
    found["model"] = run("load", "cpu_sim plain, saved", model=Llama(layers=2), rows=words)
    found["plain"] = run("load", "cpu_sim plain, saved")
    found["empty"] = run("load", "nothing", model=Llama(), rows=words)
    plugin = Float8Inference("quantize", "chip")
    run(plugin)
    found["save"] = said(plugin.save, "saved")
    from safetensors.torch import load_file, save_file
    kept = load_file("cpu_sim plain, saved/model.safetensors")
    kept.pop("model.norm.weight")
    save_file(kept, "cpu_sim plain, saved/model.safetensors")
    found["weight"] = run("load", "cpu_sim plain, saved", model=Llama(), rows=words)
    return found

warnings.simplefilter("ignore")
found = {}
if "LOCAL_RANK" not in os.environ:
    exact = Module().net.double()(ROWS.double()).detach()
    model = Module()
    before = [each.clone() for each in model.parameters()]
    found["nothing"] = run("quantize", "chip")
    INTERRUPTED = True
    found["interrupted"] = [run("measure", "chip", model=model), run("quantize", "chip")]
    INTERRUPTED = False
    found["no batch"] = run("measure", "chip", rows=ROWS[:0])
    found["measured"] = ((run("measure", "chip", model=model) - exact).norm() / exact.norm()).item()
    found["plain again"] = [type(each).__name__ for each in model.net]
    found["same weights"] = all(map(torch.equal, before, model.parameters()))
    found["pickles"] = "neural_compressor" not in str(vars(model).keys() | vars(model.net[0]).keys())
    chips = run("quantize", "chip", model=model)
    found["error"] = ((chips - exact).norm() / exact.norm()).item()
    found["dtype"] = str(model.net[0].weight.dtype)
    try:
        model.load_state_dict(Module().state_dict())
    except northbridge.UnsupportedError as error:
        found["checkpoint"] = str(error)
    found["twice"] = run("measure", "other", model=model)
    run("measure", "cpu", chip="cpu")
    found["as on the CPU"] = torch.equal(chips, run("quantize", "cpu", chip="cpu"))
    found["chip"] = run("quantize", "cpu")
    scaled = Module()
    scaled.net[0].weight.data *= 2
    found["weights"] = run("quantize", "chip", model=scaled)
    found["fit"] = run("measure", "chip", how="fit")
    for name, config in {"method": {"scale_method": "maxabs_hw"}, "word": {"scale_method": "maxabs_wh"},
                         "key": {"scale_methd": ""}, "vendor": {"use_qdq": False}, "observer": {"observer": "maxab"},
                         "blocked": {"blocklist": {"types": ["Linear"], "names": []}}}.items():
        found[name] = run("quantize", "chip", config)
    from neural_compressor.torch.quantization import FP8Config
    given = {"use_qdq": "True", "hp_dtype": "FP32", "scale_method": "ACT_MAXABS_POW2_WEIGHTS_PCS_MAXABS_POW2"}
    Path("config.json").write_text(json.dumps(given))
    theirs, own = FP8Config.from_dict(given), dict(given)
    copies = dict(vars(theirs))
    outputs = [run("quantize", "chip", each) for each in (own, "config.json", theirs)]
    found["configs"] = [((each - exact).norm() / exact.norm()).item() for each in outputs]
    found["unchanged"] = [own == given, json.loads(Path("config.json").read_text()) == given, vars(theirs) == copies]
    precision = Float8Inference("measure", "fabric")
    fabric = Fabric(accelerator="cpu_sim", devices=1, plugins=precision)
    net = fabric.setup_module(Module().net.eval())
    with torch.no_grad():
        net(ROWS.to(fabric.device))
    precision.teardown()
    fabric = Fabric(accelerator="cpu_sim", devices=1, plugins=Float8Inference("quantize", "fabric"))
    net = fabric.setup_module(Module().net.eval())
    with torch.no_grad():
        found["in a Fabric"] = torch.equal(net(ROWS.to(fabric.device)).cpu().double(), chips)
    try:
        fabric.backward(net(ROWS.to(fabric.device)).float().sum())
    except northbridge.UnsupportedError as error:
        found["backward"] = str(error)
    found["saved"] = save_and_load()
rank = int(os.environ.get("LOCAL_RANK", 0))
found["ranks"] = run("quantize", "chip", devices=2)
run("measure", "ranks", devices=2)
quantized, plugin = Module(), Float8Inference("quantize", "ranks")
run(plugin, devices=2, model=quantized)
run("measure", "llama", devices=2, model=Llama(), rows=torch.ones(8, 8, dtype=torch.long))
of_llama = Float8Inference("quantize", "llama")
run(of_llama, devices=2, model=Llama(), rows=torch.ones(8, 8, dtype=torch.long))
found["several"] = [said(of_llama.save, "saved"), run("load", "saved", devices=2, model=Llama())]
found["layers"] = [type(each).__name__ for each in quantized.net]
if rank == 0:
    files = [json.loads(Path(f"ranks/measure_hooks_maxabs_{each}_2.json").read_text()) for each in (0, 1)]
    found["largest"] = [each["Nodes"]["net.0"]["inputs"][0][0][0] for each in files]
    found["wanted"] = [ROWS[each::2].bfloat16().abs().max().item() for each in (0, 1)]
    print(json.dumps(found))
"""


@needs_engines
def test_a_model_is_measured_and_quantized_as_on_the_cpu(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(MODELS + RUN)

    plain = {name: value for name, value in os.environ.items() if not name.startswith("NORTHBRIDGE_")}
    ran = run_script(script, folder=tmp_path, environ=with_engines(plain))

    assert ran.status == 0, ran.said
    found = json.loads(next(line for line in ran.said.splitlines() if line.startswith("{")))
    assert found["as on the CPU"]
    assert found["in a Fabric"]
    assert found["measured"] < 0.01
    assert 0.02 < found["error"] < 0.08
    assert all(0.02 < error < 0.08 for error in found["configs"])
    assert found["unchanged"] == [True, True, True]
    assert (found["plain again"], found["same weights"]) == (["Linear", "ReLU", "Linear"], True)
    assert found["pickles"]
    assert found["dtype"] == "torch.float8_e4m3fn"
    assert found["layers"] == ["PatchedLinear", "ReLU", "PatchedLinear"]
    assert found["largest"] == found["wanted"]  # each rank has its own rows
    assert "Quantized 2 layers to float8 by quantizing and dequantizing (QDQ)" in ran.said
    _assert_refused(found, tmp_path)
    _assert_saved(found["saved"], tmp_path)
    _assert_several_ranks_cannot_save(found["several"])


def _assert_refused(found: dict[str, Any], folder: Path) -> None:
    chip, cpu, again = folder / "chip", folder / "cpu", "Fix: measure again with stage='measure'"
    layer = "northbridge_measure_0_1.json in {} was measured with the layer 'net.0': Linear (48, 32) up to 0.1768,"
    known = "ArgumentsError: Float8Inference(config=…): neural-compressor-pt does not know"
    for name, said in {
        "nothing": f"ArgumentValueError: {chip} has no measurement. Fix: measure with stage='measure' first",
        "no batch": "ArgumentsError: Float8Inference('measure'): no layer of Module has computed a batch. Fix: a run of"
        " one batch or more",
        "twice": "UnsupportedError: Module is quantized already, or still measured. Fix: load the plain model",
        "chip": f"ArgumentValueError: northbridge_measure_0_1.json in {cpu} was measured with the chip 'cpu', and this"
        f" run has 'cpu_sim'. {again}",
        "weights": f"ArgumentValueError: {layer.format(chip)} and this run has Linear (48, 32) up to 0.3535. {again}",
        "ranks": f"ArgumentValueError: {chip} was measured by 1 rank, and this run has 2. Fix: devices=1, or"
        f" {again[5:]}",
        "fit": "UnsupportedError: trainer.fit(): Float8Inference is for validation, test and prediction alone. Fix:"
        " train with precision='transformer-engine' or 'bf16-mixed'",
        "method": "UnsupportedError: neural-compressor-pt cannot quantize on 'cpu_sim' with scale_method='maxabs_hw'"
        " (KeyError: None). Fix: scale_method='maxabs_pow2'",
        "word": f"{known} the scale method 'maxabs_wh'. Did you mean 'maxabs_hw'?",
        "key": f"{known} the key 'scale_methd'. Did you mean 'scale_method'?",
        "observer": f"{known} the observer 'maxab'. Did you mean 'maxabs'?",
        "vendor": "UnsupportedError: neural-compressor-pt has no operators of 'cpu_sim', and use_qdq is false. Fix:"
        " leave use_qdq out",
        "blocked": "UnsupportedError: no layer of Module can be quantized to float8 on 'cpu_sim': it has net.0, net.2,"
        " and config= has {'blocklist': {'types': ['Linear'], 'names': []}}. Fix: a model with torch.nn.Linear layers,"
        " or precision='bf16-mixed'",
        "checkpoint": "net.0.weight is torch.float32, and this layer is quantized to torch.float8_e4m3fn. Fix: load the"
        " checkpoint into the plain model, and quantize that",
        "backward": "backward(): Float8Inference is for validation, test and prediction alone. Fix: train with"
        " precision='transformer-engine' or 'bf16-mixed'",
    }.items():
        assert found[name] == said
    unfinished = f"ArgumentValueError: northbridge_measure_0_1.json in {chip} is of an unfinished run. {again}"
    assert found["interrupted"] == ["RuntimeError: interrupted", unfinished]


def _assert_saved(found: dict[str, Any], folder: Path) -> None:
    assert found["cpu_sim plain"] == found["cpu plain"] == [True, True, "Linear", False]
    assert found["cpu_sim by channel"] == [True, True, "PatchedLinear", False]
    again = "Fix: save it again, after a run with stage='quantize'"
    only = "neural-compressor-pt saves and loads one model of transformers, and Module has none. Fix: stage='quantize'"
    chip, cpu = (folder / f"{each} plain, saved" for each in ("cpu_sim", "cpu"))
    layer = "model.layers.1.self_attn.q_proj"
    for name, said in {
        "again": f"ArgumentsError: Float8Inference.save({str(cpu)!r}): it has a model. Fix: another folder",
        "chip": f"ArgumentValueError: northbridge_model_0_1.json in {cpu} was saved with the chip 'cpu', and this run"
        f" has 'cpu_sim'. {again}",
        "model": f"ArgumentValueError: northbridge_model_0_1.json in {chip} was saved with the layer '{layer}': none,"
        f" and this run has Linear (32, 32). {again}",
        "plain": f"UnsupportedError: Float8Inference('load'): {only}",
        "save": f"UnsupportedError: Float8Inference.save(): {only}",
        "empty": f"ArgumentValueError: {folder / 'nothing'} has no quantized model of Northbridge. Fix: save() of a run"
        " with stage='quantize' first",
        "weight": f"ArgumentValueError: {chip} has no weight for model.norm.weight. {again}",
    }.items():
        assert found[name] == said


def _assert_several_ranks_cannot_save(found: list[str]) -> None:
    assert found == [
        "UnsupportedError: Float8Inference.save(): neural-compressor-pt cannot save one of 2 ranks. Fix: devices=1",
        "UnsupportedError: Float8Inference('load'): neural-compressor-pt cannot load into 2 ranks. Fix: devices=1",
    ]
