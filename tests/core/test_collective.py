"""The collective's defaults, on a library that is everywhere: Gloo, between two ranks on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
import torch
import torch.distributed as dist
from tests.core.conftest import Install
from torch.distributed import HashStore  # type: ignore[attr-defined]  # torch's

import northbridge


class Gloo(northbridge.Collective):
    name = "gloo"


class ACCL(northbridge.Collective):
    name = "accl"


CPU = torch.device("cpu")

# Two ranks in one Python: the second is forked before the first has touched anything.
RANKS = """
import json, os, socket
from datetime import timedelta

import torch
import northbridge

class Gloo(northbridge.Collective):
    name = "gloo"

class Rounding(Gloo):
    exact_dtypes = frozenset({"float32"})

class Narrow(Gloo):
    carried_dtypes = frozenset({"float32", "uint8"})

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))

rank = 0 if os.fork() else 1
collective = Gloo()
collective.initialize(rank=rank, world_size=2, timeout=timedelta(seconds=60), device=torch.device("cpu"))
collective.assert_carries(torch.device("cpu"))

def reduce(op, first, second, dtype, collective=collective):
    tensor = torch.tensor([first, second][rank], dtype=dtype)
    returned = collective.all_reduce(tensor, op)
    assert returned is tensor, "not in place"
    return tensor.tolist()

big = 2**24 + 1  # no float32
told = {
    "sum": reduce("sum", [1.5, 2.0], [0.5, 4.0], torch.float32),
    "mean": reduce("mean", [1.0, 2.0], [2.0, 4.0], torch.float32),
    "min": reduce("min", [1.0, 4.0], [2.0, 3.0], torch.float32),
    "max": reduce("max", [1.0, 4.0], [2.0, 3.0], torch.float32),
    "product": reduce("product", [2.0, 3.0], [5.0, 7.0], torch.float32),
    "sum of int64": reduce("sum", [big], [big + 2], torch.int64),
    "mean of int64": reduce("mean", [big, 2**60 + 1], [big + 2, 2**60 + 3], torch.int64),
    "mean of int64 towards zero": reduce("mean", [3, -3], [4, -4], torch.int64),
    "mean of int32": reduce("mean", [big], [big + 2], torch.int32),
    "max of int64": reduce("max", [big], [big + 2], torch.int64),
    "mean of float64": reduce("mean", [1.0], [2.0], torch.float64),
}
rounding, reduced = Rounding(), []
all_reduce = torch.distributed.all_reduce

def watched(tensor, **options):
    reduced.append(str(tensor.dtype))
    return all_reduce(tensor, **options)

torch.distributed.all_reduce = watched
gathered, all_gather, narrow = [], torch.distributed.all_gather, Narrow()

def watched_gather(tensors, tensor, **options):
    gathered.append(str(tensor.dtype))
    return all_gather(tensors, tensor, **options)

torch.distributed.all_gather = watched_gather
told |= {
    "max of bool as bytes": reduce("max", [[True, False]], [[False, False]], torch.bool, narrow),
    "min of int16 as bytes": reduce("min", [-300, 7], [5, 300], torch.int16, narrow),
    "mean of a number as bytes": reduce("mean", 3.0, 4.0, torch.float64, narrow),
    "carried": sorted({*gathered, *reduced}),
}
torch.distributed.all_gather = all_gather
reduced.clear()
told |= {
    "exact sum": reduce("sum", [1.5], [0.5], torch.float32, rounding),
    "gathered sum": reduce("sum", [big, 2**60 + 1], [big + 2, 2], torch.int64, rounding),
    "gathered mean": reduce("mean", [big, -3], [big + 2, -4], torch.int64, rounding),
    "gathered min": reduce("min", [big, 7], [big + 2, 5], torch.int64, rounding),
    "gathered max": reduce("max", [big, 7], [big + 2, 5], torch.int64, rounding),
    "gathered product": reduce("product", [3, 5], [7, 2**50 + 1], torch.int64, rounding),
    "gathered sum of bool": reduce("sum", [True, False], [False, False], torch.bool, rounding),
    "gathered min of bool": reduce("min", [True, True], [False, True], torch.bool, rounding),
    "gathered sum of float64": reduce("sum", [1.0], [2.0**-40], torch.float64, rounding),
    "reduced by the library": reduced,
}
torch.distributed.all_reduce = all_reduce
alone = torch.distributed.new_group([0])
def counted(collective):
    try:
        collective.assert_carries(torch.device("cpu"))
    except northbridge.CollectiveError as error:
        return str(error)
    return ""

class Whole(Gloo):
    exact_dtypes = frozenset({"int64"})

summed = []
def do_nothing(tensor, **options):
    summed.append(str(tensor.dtype))

torch.distributed.all_reduce = do_nothing
told |= {"nothing is done": counted(collective), "whole numbers": counted(Whole()), "ones in": summed}
collective.assert_carries(torch.device("cpu"), alone) if rank == 0 else None
told["a group of one reduced"] = len(summed)
torch.distributed.all_reduce = all_reduce
if rank == 0:
    told["in a group of one"] = collective.all_reduce(torch.tensor([6.0]), "mean", alone).tolist()
collective.barrier()
torch.distributed.destroy_process_group()
if rank == 0:
    _, status = os.wait()
    told["the other rank's end"] = status
    print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def ranks(install: Install) -> Any:
    """Return the result of rank 0 of the two above."""
    return install("acme").answer(RANKS)


@pytest.mark.parametrize(
    ("reduction", "result"),
    [
        ("sum", [2.0, 6.0]),
        ("mean", [1.5, 3.0]),
        ("min", [1.0, 3.0]),
        ("max", [2.0, 4.0]),
        ("product", [10.0, 21.0]),
        ("sum of int64", [2**25 + 4]),
        ("mean of int64", [2**24 + 2, 2**60 + 2]),
        ("mean of int64 towards zero", [3, -3]),
        ("mean of int32", [2**24 + 2]),
        ("max of int64", [2**24 + 3]),
        ("mean of float64", [1.5]),
        ("in a group of one", [6.0]),
        ("exact sum", [2.0]),
        ("gathered sum", [2**25 + 4, 2**60 + 3]),
        ("gathered mean", [2**24 + 2, -3]),
        ("gathered min", [2**24 + 1, 5]),
        ("gathered max", [2**24 + 3, 7]),
        ("gathered product", [21, 5 * 2**50 + 5]),
        ("gathered sum of bool", [True, False]),
        ("gathered min of bool", [False, True]),
        ("gathered sum of float64", [1.0 + 2.0**-40]),
        ("max of bool as bytes", [[True, False]]),
        ("min of int16 as bytes", [-300, 7]),
        ("mean of a number as bytes", 3.5),
    ],
)
def test_all_reduce_leaves_the_reduction_in_the_tensor(reduction: str, result: list[float], ranks: Any) -> None:
    assert ranks[reduction] == result


def test_only_what_the_library_knows_is_given_to_it(ranks: Any) -> None:
    """What it does not reduce exactly is gathered, and what it does not carry travels as bytes."""
    assert ranks["reduced by the library"] == ["torch.float32"]
    assert ranks["carried"] == ["torch.uint8"]


def test_a_library_that_reduces_nothing_is_refused(ranks: Any) -> None:
    """Ones are summed in a dtype that is exact, and a group of one rank sums nothing."""
    assert ranks["nothing is done"] == (
        "'gloo' does not sum: 2 ranks added up ones and got 1. Fix: reinstall the library of 'cpu'"
    )
    assert "got 1. Fix" in ranks["whole numbers"]
    assert ranks["ones in"] == ["torch.float32", "torch.int64"]
    assert (ranks["a group of one reduced"], ranks["the other rank's end"]) == (2, 0)


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
class TestAGroup:
    @pytest.mark.parametrize(
        ("word", "told"),
        [
            ("mean", "bool has no mean. Fix: convert to float, or use max or min"),
            *(
                (each, f"unknown reduction {each!r}; known: sum, mean, min, max, product")
                for each in ("avg", "SUM", "median")
            ),
            ("product", "'gloo' cannot reduce by 'product': multiply what all_gather brings"),
        ],
    )
    def test_a_reduction_is_refused_before_anything_is_reduced(self, word: str, told: str) -> None:
        class Poor(Gloo):
            missing_reductions: ClassVar = {"product": "multiply what all_gather brings"}

        flags = torch.tensor([True, False])
        with pytest.raises(northbridge.CollectiveError) as caught:
            Poor().all_reduce(flags, word)

        assert flags.tolist() == [True, False]
        assert str(caught.value) == told

    def test_a_library_or_another_name_of_it_is_accepted(self) -> None:
        class Both(ACCL):
            other_names: ClassVar = ("gloo",)

        Gloo().assert_carries(CPU)
        Gloo().assert_carries(CPU, dist.group.WORLD)
        Both().assert_carries(CPU)

    def test_another_library_under_the_device_is_refused(self) -> None:
        with pytest.raises(northbridge.CollectiveError) as caught:
            ACCL().assert_carries(CPU)

        config = dist.get_backend_config()
        assert str(caught.value) == (
            f"'cpu' needs 'accl', but the process group uses 'gloo' ({config!r}). Fix:"
            " torch.distributed.init_process_group('accl')"
        )


def test_a_group_that_serves_other_devices_only_is_refused() -> None:
    dist.init_process_group("cpu:gloo", store=HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(northbridge.CollectiveError, match=r"uses 'nothing' \('cpu:gloo'\)"):
            Gloo().assert_carries(torch.device("cuda", 0))
    finally:
        dist.destroy_process_group()


def test_torch_is_given_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a timeout torch's own stands."""

    class Eager(ACCL):
        takes_device_id = True

    asked: dict[str, Any] = {}
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **kwargs: asked.update(kwargs, name=args[0]))
    store, limit = HashStore(), timedelta(minutes=3)

    ACCL().initialize(rank=1, world_size=2, timeout=limit, device=CPU)
    assert asked == {"name": "accl", "rank": 1, "world_size": 2, "timeout": limit}
    asked.clear()
    Eager().initialize(rank=0, world_size=1, timeout=None, device=CPU, store=store)
    assert asked == {"name": "accl", "rank": 0, "world_size": 1, "device_id": CPU, "store": store}


class TestWhatIsCarried:
    class Narrow(ACCL):
        carried_dtypes: ClassVar = frozenset({"float32", "uint8"})

    def test_a_dtype_that_the_library_knows_travels_as_it_is(self) -> None:
        tensor, flags = torch.ones(2), torch.tensor([True])

        assert self.Narrow().as_carried(tensor) is tensor
        assert self.Narrow().as_sent(tensor, like=tensor) is tensor
        assert ACCL().as_carried(flags) is flags

    @pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float64], ids=str)
    @pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "turned"])
    @pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)], ids=str)
    def test_any_other_comes_back_from_its_bytes(
        self, dtype: torch.dtype, shape: tuple[int, ...], turned: bool
    ) -> None:
        made = torch.randint(0, 2, shape).to(dtype)
        tensor = made.mT if turned and len(shape) > 1 else made
        narrow = self.Narrow()

        sent = narrow.as_carried(tensor)
        arrived = narrow.as_sent(torch.stack([sent, sent]), like=tensor)

        assert sent.dtype == torch.uint8
        assert torch.equal(narrow.as_sent(sent, like=tensor), tensor)
        assert torch.equal(arrived, torch.stack([tensor, tensor]))


def test_ddp_and_registration_need_nothing_by_default() -> None:
    collective = ACCL()

    collective.register()

    assert collective.ddp_options() == {}
