"""Train under each of Lightning's profilers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import classifier, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Report weights and the profilers' summaries."""
    profilers: Any = import_module(f"{scenario.namespace}.profilers")
    found: dict[str, Any] = {}
    rank = 0
    for name, kind in (
        ("none", lambda **_: None),
        ("simple", profilers.SimpleProfiler),
        ("advanced", profilers.AdvancedProfiler),
        ("pytorch", profilers.PyTorchProfiler),
    ):
        profiler = kind(dirpath=folder, filename=name)
        host = trainer(scenario, folder, profiler=profiler, max_epochs=1)
        module = classifier(scenario.namespace, "mlp", folder, "profilers fit")
        host.fit(module, loader(shuffle=False))
        rank = host.global_rank
        files = (f"*-{name}.txt", f"*-{name}-{rank}.txt")  # where there are several ranks, Lightning adds the number
        said = "".join(path.read_text() for file in files for path in folder.glob(file))
        found[name] = {"weights": fingerprint(module.state_dict()), "said": said}
    write(folder, "profilers", rank, found)
