"""Effects of the communication library's import on the environment of a rank."""

from __future__ import annotations

from northbridge_hpu.simulated.record import set_variable, variable

_KEYS = ("WORLD_SIZE", "RANK", "LOCAL_RANK")


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """Complete the environment of a rank, choose its card, and return world size, rank and local rank.

    An unknown world size is 1, an unknown rank is -1. Raises AssertionError if HABANA_VISIBLE_MODULES lists too few.
    """
    given = (world_size, rank, local_rank)
    if None not in given:
        for key, value in zip(_KEYS, given, strict=True):
            set_variable(key, str(value))
    elif any(variable(key) is None for key in _KEYS):
        of_mpi = {key: variable(f"OMPI_COMM_WORLD_{key.removeprefix('WORLD_')}") for key in _KEYS}
        for key, text in of_mpi.items():
            if text is not None and None not in of_mpi.values():
                set_variable(key, text)
        for key, default in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "12345")):
            if variable(key) is None:
                set_variable(key, default)
    found = int(variable("WORLD_SIZE") or 1), int(variable("RANK") or -1), int(variable("LOCAL_RANK") or -1)
    _choose_card(world_size=found[0], local_rank=found[2])
    if found[1] != -1:
        set_variable("ID", str(found[1]))
    return found


def _choose_card(*, world_size: int, local_rank: int) -> None:
    emulated = (variable("PT_HPU_EMULATE_DISTRIBUTED") or "").lower() in {"1", "true"}
    if variable("HLS_MODULE_ID") is not None or local_rank == -1 or world_size == 1 or emulated:
        return
    visible = variable("HABANA_VISIBLE_MODULES")
    if visible is None:
        set_variable("HLS_MODULE_ID", str(local_rank))
        return
    modules = visible.split(",")
    assert local_rank < len(modules), (
        "There is not enough devices available for training. Please verify if HABANA_VISIBLE_MODULES is set correctly."
    )
    set_variable("HLS_MODULE_ID", modules[local_rank].strip())
