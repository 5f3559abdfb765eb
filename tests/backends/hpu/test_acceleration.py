"""What the backend reads from the vendor's software beyond torch's own operators."""

from __future__ import annotations

from types import ModuleType

import torch
from tests.backends.simulation.processes import Run

import northbridge
from northbridge_hpu.acceleration import HPUAcceleration


class TestCompilations:
    def test_a_new_shape_grows_the_vendors_count(self, hpu: ModuleType) -> None:
        acceleration = HPUAcceleration()
        torch.ones(23, 3, device="hpu")
        before = acceleration.compilations()
        torch.ones(23, 3, device="hpu")
        known = acceleration.compilations()
        torch.ones(23, 5, device="hpu")

        assert set(before) == {"graph_compilation", "cpu_fallback", "memory_defragmentation"}
        assert known == before
        assert acceleration.compilations()["graph_compilation"] == before["graph_compilation"] + 1

    def test_the_cache_counts_where_the_vendor_counts_it(self, run: Run) -> None:
        program = "torch.ones(2, device='hpu'); torch.ones(2, device='hpu'); print(backend.acceleration.compilations())"
        said = run(
            program,
            first="import northbridge, torch\nbackend = northbridge.load('hpu')\n",
            PT_HPU_ENABLE_CACHE_METRICS="1",
        )

        assert "'recipe_cache hits': 1.0, 'recipe_cache misses': 1.0" in said

    def test_the_backend_has_it_and_claims_it(self) -> None:
        backend = northbridge.get("hpu")

        assert isinstance(backend.acceleration, HPUAcceleration)
        assert backend.capabilities.recompilation == northbridge.yes
