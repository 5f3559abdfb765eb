"""Write backends/hpu/float8-errors.md: the errors of Intel Neural Compressor's scale methods, against float64.

    PYTHONPATH=.engines .venv/bin/python docs/scripts/float8_errors.py

Each column is a process: the simulated Gaudi 2 and 3, by the vendor's operators, and the CPU, which quantizes and
dequantizes (QDQ) and multiplies in float32.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "backends" / "hpu" / "float8-errors.md"
METHODS = (
    "unit_scale",
    "hw_aligned_single_scale",
    "maxabs_hw",
    "maxabs_pow2",
    "maxabs_arbitrary",
    "ACT_MAXABS_POW2_WEIGHTS_PCS_MAXABS_POW2",
)
COLUMNS = {
    "CPU, QDQ": {"INC_TARGET_DEVICE": "cpu"},
    "Gaudi 2": {"NORTHBRIDGE_SIMULATE": "hpu", "NORTHBRIDGE_HPU_SIM_GENERATION": "2"},
    "Gaudi 3": {"NORTHBRIDGE_SIMULATE": "hpu", "NORTHBRIDGE_HPU_SIM_GENERATION": "3"},
}
SIZES = (0.01, 1.0, 100.0)
"""The sizes of the inputs."""

TOP = """# Errors of float8 inference

Each number is the norm of the error of a model's outputs, relative to float64. The model is two linear layers
with a ReLU between them, of 128 features, and starts as `torch.nn.Linear` does. Its inputs are normally
distributed, times the size in the column's head. [Intel Neural Compressor](../../docs/precision.md#float8-inference)
measures and quantizes it by the method of the row.
"""
END = """
The CPU quantizes and dequantizes (QDQ), and multiplies in float32. A dash means that the library does not offer the
method there. The Gaudis are simulated: their range is that of the generation, their rounding torch's.

- `unit_scale` divides by nothing. e4m3 ends at 240 on Gaudi 2 and at 448 on Gaudi 3: what is larger is cut.
- `hw_aligned_single_scale` divides everything by one scale, 16 on Gaudi 2 and 128 on Gaudi 3: what is small is lost.
- The other methods divide by the largest value that was measured. `maxabs_hw` rounds this scale to one of the hardware.

`PYTHONPATH=.engines .venv/bin/python docs/scripts/float8_errors.py` writes this page.
"""


def measure(folder: Path) -> dict[str, list[float | None]]:
    """Return the errors of each method in this process, for each size."""
    import torch

    name = "hpu" if "NORTHBRIDGE_SIMULATE" in os.environ else "cpu"
    if name == "hpu":
        import northbridge

        backend = northbridge.load(name)
        backend.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
        backend.device.select(0)
    return {
        method: [_error(torch, name, method, size, folder / f"{method}-{size}" / "inc") for size in SIZES]
        for method in METHODS
    }


def _error(torch: Any, name: str, method: str, size: float, dump: Path) -> float | None:
    from importlib import import_module

    library: Any = import_module("neural_compressor.torch.quantization")  # in .engines

    given: dict[str, Any] = {"dump_stats_path": str(dump), "scale_method": method, "observer": "maxabs"}
    given["allowlist"] = {"types": [], "names": []}
    if name == "cpu":
        given |= {"use_qdq": True, "hp_dtype": "FP32", "scale_format": "const"}
    rows = torch.randn(64, 128, generator=torch.Generator().manual_seed(1)) * size
    wanted = _model(torch).double()(rows.double()).detach()
    if name == "hpu":
        rows = rows.bfloat16()
    try:
        with torch.no_grad():
            measured = library.prepare(_on(torch, name), library.FP8Config.from_dict({**given, "mode": "MEASURE"}))
            measured(rows.to(name))
            library.finalize_calibration(measured)
            quantized = library.convert(_on(torch, name), library.FP8Config.from_dict({**given, "mode": "QUANTIZE"}))
            found = quantized(rows.to(name)).cpu().double()
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        print(f"{name}: {method}: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return float((found - wanted).norm() / wanted.norm())


def _model(torch: Any) -> Any:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128))
    return torch.nn.Sequential(*layers).eval()


def _on(torch: Any, name: str) -> Any:
    model = _model(torch)
    return model.to(name, torch.bfloat16) if name == "hpu" else model


def main() -> int:
    """Measure each column in its process, and write the page."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for column, variables in COLUMNS.items():
        with tempfile.TemporaryDirectory(prefix="northbridge-float8-") as folder:
            environ = {**os.environ, "NORTHBRIDGE_HPU_SIM_SERVER": folder, **variables}
            command = [sys.executable, str(Path(__file__)), "measure", folder]
            done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
        found[column] = json.loads(done.stdout.splitlines()[-1])
    PAGE.write_text(TOP + "\n" + "\n".join(table(found)) + "\n" + END)
    return 0


def table(found: dict[str, dict[str, list[float | None]]]) -> list[str]:
    """Return the lines of the table."""
    heads = [f"{column}, × {size:g}" for column in found for size in SIZES]
    lines = [f"| scale method | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for method in METHODS:
        cells = ["–" if each is None else f"{each:.1%}" for column in found.values() for each in column[method]]
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        sys.exit(0)
    sys.exit(main())
