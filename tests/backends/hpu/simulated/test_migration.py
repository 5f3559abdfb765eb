"""PT_HPU_GPU_MIGRATION: an HPU that passes for CUDA."""

from __future__ import annotations

from collections.abc import Callable


def test_cuda_looks_available(run: Callable[..., str]) -> None:
    program = "print(torch.cuda.is_available(), torch.cuda.device_count())"
    assert run(program, PT_HPU_GPU_MIGRATION="1") == "True 8\n"
    assert run(program) == "False 0\n"


def test_hccl_says_that_it_is_nccl(on_ranks: Callable[..., list[str]]) -> None:
    assert on_ranks("print(dist.get_backend())", PT_HPU_GPU_MIGRATION="1") == 2 * ["nccl\n"]
