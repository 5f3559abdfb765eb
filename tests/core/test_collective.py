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

# Two ranks in one Python: the second is forked before the first has touched anything. What comes of every reduction in
# every dtype is asked of each chip by the suite, CollectiveReductions.
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

class Whole(Gloo):
    exact_dtypes = frozenset({"int64"})

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))

rank = 0 if os.fork() else 1
collective = Gloo()
collective.initialize(rank=rank, world_size=2, timeout=timedelta(seconds=60), device=torch.device("cpu"))
collective.assert_carries(torch.device("cpu"))
given = []

def watch(name):
    function = getattr(torch.distributed, name)
    def watched(*tensors, **options):
        given.append(f"{name} {tensors[-1].dtype}".replace("torch.", ""))
        return function(*tensors, **options)
    setattr(torch.distributed, name, watched)
    return function

all_reduce, all_gather = watch("all_reduce"), watch("all_gather")

def reduce(op, first, second, dtype, collective=collective):
    given.clear()
    tensor = torch.tensor([first, second][rank], dtype=dtype)
    returned = collective.all_reduce(tensor, op)
    assert returned is tensor, "not in place"
    return tensor.tolist(), *given

big = 2**24 + 1  # no float32
told = {
    "mean": reduce("mean", [1.0, 2.0], [2.0, 4.0], torch.float32),
    "mean of int64": reduce("mean", [big, 2**60 + 1, -3], [big + 2, 2**60 + 3, -4], torch.int64),
    "exact": reduce("sum", [1.5], [0.5], torch.float32, Rounding()),
    "gathered": reduce("mean", [big, -3], [big + 2, -4], torch.int64, Rounding()),
    "gathered product": reduce("product", [3, 5], [7, 2**50 + 1], torch.int64, Rounding()),
    "gathered sum of bool": reduce("sum", [True, False], [False, False], torch.bool, Rounding()),
    "min as bytes": reduce("min", [-300, 7], [5, 300], torch.int16, Narrow()),
    "a number as bytes": reduce("mean", 3.0, 4.0, torch.float64, Narrow()),
}
alone = torch.distributed.new_group([0])

def counted(collective):
    try:
        collective.assert_carries(torch.device("cpu"))
    except northbridge.CollectiveError as error:
        return str(error)

given.clear()
torch.distributed.all_reduce = lambda tensor, **_: given.append(str(tensor.dtype))
told |= {"nothing is done": counted(collective), "whole numbers": counted(Whole())}
collective.assert_carries(torch.device("cpu"), alone) if rank == 0 else None
told["ones in"] = [*given]
torch.distributed.all_reduce = all_reduce
if rank == 0:
    told["in a group of one"] = collective.all_reduce(torch.tensor([6.0]), "mean", alone).tolist()
collective.barrier()
torch.distributed.destroy_process_group()
if rank == 0:
    _, told["the other rank's end"] = os.wait()
    print(json.dumps(told))
"""


def test_only_what_the_library_knows_is_given_to_it(install: Install) -> None:
    """What it does not reduce exactly is gathered, and what it does not carry travels as bytes.

    A library that sums nothing is refused, by ones in a dtype that is exact; a group of one rank sums nothing.
    """
    assert install("acme").answer(RANKS) == {
        "mean": [[1.5, 3.0], "all_reduce float32"],
        "mean of int64": [[2**24 + 2, 2**60 + 2, -3], "all_reduce int64"],
        "exact": [[2.0], "all_reduce float32"],
        "gathered": [[2**24 + 2, -3], "all_gather int64"],
        "gathered product": [[21, 5 * 2**50 + 5], "all_gather int64"],
        "gathered sum of bool": [[True, False], "all_gather bool"],
        "min as bytes": [[-300, 7], "all_gather uint8"],
        "a number as bytes": [3.5, "all_gather uint8"],
        "nothing is done": "'gloo' does not sum: 2 ranks added up ones and got 1. Fix: reinstall the library of 'cpu'",
        "whole numbers": "'gloo' does not sum: 2 ranks added up ones and got 1. Fix: reinstall the library of 'cpu'",
        "ones in": ["torch.float32", "torch.int64"],
        "in a group of one": [6.0],
        "the other rank's end": 0,
    }


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

    @pytest.mark.parametrize("dtype", [torch.bool, torch.float64], ids=str)
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
