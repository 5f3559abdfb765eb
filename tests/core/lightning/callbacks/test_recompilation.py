from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, refusal
from torch import nn
from torch.utils.data import DataLoader

import northbridge
from northbridge.backend import Backend
from northbridge.discovery import declared
from northbridge.lightning.callbacks.distinct_graphs import DistinctGraphs, SeenGraph
from northbridge.lightning.callbacks.recompilation import CompiledGraphs, graph_table
from northbridge.lightning.namespaces import Namespace


@pytest.fixture
def namespace(trainer_namespace: Namespace) -> Namespace:
    return trainer_namespace


@pytest.fixture
def monitor(namespace: Namespace) -> Any:
    return importlib.import_module(namespace.home).RecompilationMonitor


@pytest.fixture
def module(namespace: Namespace) -> Any:
    trained: Any = importlib.import_module(namespace.name).LightningModule()
    trained.net = nn.Linear(3, 1)
    trained.training_step = lambda batch: trained.net(batch).mean()
    trained.validation_step = lambda batch: trained.net(batch)
    trained.configure_optimizers = lambda: torch.optim.SGD(trained.parameters(), 0.1)
    return trained


def batches(*sizes: int) -> DataLoader[Any]:
    return DataLoader([torch.ones(size, 3) for size in sizes], batch_size=None)  # type: ignore[arg-type]  # a list


@pytest.fixture
def fit(build: Build, module: Any) -> Callable[..., Any]:
    def run(watch: Any, *sizes: int, validation: Iterable[int] = (), **arguments: Any) -> Any:
        asked = {"accelerator": "cpu", "max_epochs": 1, "num_sanity_val_steps": 0, "callbacks": [watch], **arguments}
        trainer = build(**asked)
        trainer.fit(module, batches(*sizes), batches(*validation) if validation else None)
        return trainer

    return run


@pytest.fixture(autouse=True)
def no_advice(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The '.*_dataloader' does not have many workers")
        warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
        yield


# --- What torch.compile has compiled


@pytest.fixture
def fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compiles(test: Any) -> Any:
    """Let nothing be compiled before, and what torch.compile imports warn."""
    return pytest.mark.usefixtures("fresh")(pytest.mark.filterwarnings("ignore::DeprecationWarning")(test))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(rows)
        return out


@compiles
def test_each_compilation_has_its_function_and_reason() -> None:
    net = torch.compile(Scaled(), backend="eager", dynamic=False)
    compiled = CompiledGraphs()
    found = [(net(torch.ones(size, 3)), compiled.new(step))[1] for step, size in enumerate((2, 2, 4))]

    assert [len(each) for each in found] == [1, 0, 1]
    assert compiled.count == 2
    first, second = found[0][0], found[2][0]
    assert (first.stage, first.first_step, first.inputs) == ("torch.compile", 0, "compiled for the first time")
    assert first.module.startswith("forward (test_recompilation.py:")
    assert second.first_step == 2
    assert "expected 2, actual 4" in second.inputs


@compiles
def test_what_was_compiled_before_does_not_count() -> None:
    """But what is compiled after a reset, which torch numbers as what was compiled first in this process."""
    torch.compile(Scaled(), backend="eager")(torch.ones(2, 3))
    compiled = CompiledGraphs()
    assert (compiled.new(0), compiled.count) == ([], 0)

    torch.compiler.reset()
    torch.compile(Scaled(), backend="eager")(torch.ones(2, 3))

    assert [each.inputs for each in compiled.new(0)] == ["compiled for the first time"]


@compiles
def test_watching_a_compiled_model_compiles_nothing_more() -> None:
    """But the watch's own hook, which torch tries to compile once in a process, and which is not in its table."""
    counts = []
    for watched in (False, True):
        torch.compiler.reset()
        net: Any = torch.compile(Scaled(), backend="eager")
        model = nn.Sequential(net)
        graphs, compiled = DistinctGraphs(), CompiledGraphs()
        if watched:
            graphs.attach(model)
        for size in (2, 4, 6, 6):
            graphs.begin_step(torch.ones(size, 3))
            net(torch.ones(size, 3))
            graphs.end_step("train", size)
            assert {each.module.partition(" ")[0] for each in compiled.new(0)} <= {"forward"}
        counts.append(compiled.count)
        graphs.detach()

    assert counts[0] == counts[1] == 2


# --- The callback


def test_the_graphs_of_training_and_validation_are_told_apart(monitor: Any, fit: Any) -> None:
    watch = monitor()
    fit(watch, 4, 2, 4, validation=(4,))

    assert [(graph.stage, graph.first_step, graph.module, graph.steps) for graph in watch.graphs] == [
        ("train", 0, "batch", 2),
        ("train", 1, "batch", 1),
        ("validate", 3, "batch", 1),
    ]
    assert watch.counts() == {"graphs": 3}
    fit(watch, 8)
    assert [graph.inputs for graph in watch.graphs] == ["(8, 3) float32"]


def test_the_table_is_printed_at_the_end(monitor: Any, fit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The progress bar and callbacks get the number."""
    trainer = fit(monitor(), 4, 2, 4)

    assert trainer.progress_bar_metrics["graphs"] == 2
    assert trainer.callback_metrics["recompilation/graphs"] == 2

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "stage  first step  steps  module  inputs",
        "train           0      2  batch   (4, 3) float32",
        "train           1      1  batch   (2, 3) float32",
    ]


def test_loggers_get_the_counts_every_few_steps_and_at_the_end(monitor: Any, fit: Any, namespace: Namespace) -> None:
    kept = namespace.module("loggers").logger.DummyLogger()
    found: list[dict[str, float]] = []
    kept.log_metrics = lambda metrics, step: found.append({**metrics, "at": step})

    fit(monitor(), 4, 2, 6, 6, 6, logger=kept, log_every_n_steps=2)

    rows = [(each["at"], each["recompilation/graphs"]) for each in found if "recompilation/graphs" in each]
    assert rows == [(1, 2), (3, 3), (5, 3)]


def test_an_error_in_a_step_ends_the_watch(monitor: Any, fit: Any, module: Any) -> None:
    module.net.register_forward_hook(lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        fit(monitor(), 4)

    assert not module.net._forward_pre_hooks
    assert not module.net._forward_pre_hooks_with_kwargs


def test_it_warns_once_while_the_number_keeps_growing(monitor: Any, fit: Any) -> None:
    with pytest.warns(UserWarning, match="graphs in") as caught:
        fit(monitor(warn_after=8), *range(1, 30))

    (warning,) = [str(each.message) for each in caught if "graphs in" in str(each.message)]
    assert warning == (
        "8 graphs in 8 steps, and each new shape adds one: at step 7, 'batch' got (8, 3) float32. Fix: pad the batches"
        " to few lengths, by northbridge.BucketBatchSampler and PaddingCollate"
    )


def test_it_names_the_module_that_makes_shapes(monitor: Any, fit: Any, module: Any) -> None:
    numbers = iter(range(1, 30))
    module.training_step = lambda _batch: module.net(torch.ones(next(numbers), 3)).mean()

    with pytest.warns(UserWarning, match=r"'net' got \(8, 3\) float32\. Fix: give 'net' inputs of few shapes, such as"):
        fit(monitor(warn_after=8), *[4] * 20)


def test_it_does_not_warn_of_a_few_shapes(monitor: Any, fit: Any, recwarn: pytest.WarningsRecorder) -> None:
    fit(monitor(warn_after=8), *[1, 2, 3, 4, 5, 6] * 3, 7)

    assert not [each for each in recwarn if "graphs in" in str(each.message)]


def test_a_compiled_model_warns_by_what_torch_compiles(monitor: Any, fit: Any, module: Any) -> None:
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of what torch.compile imports
    torch.compiler.reset()
    module.net = torch.compile(module.net, backend="eager", dynamic=True)
    watch = monitor(warn_after=8)
    fit(watch, *range(2, 24))

    assert watch.counts()["torch.compile"] <= 2
    assert "torch.compile: " in watch.table()


def test_no_step_to_warn_after_is_an_error(monitor: Any) -> None:
    with pytest.raises(northbridge.ArgumentsError, match=r"RecompilationMonitor\(warn_after=0\): not 1 or more"):
        monitor(warn_after=0)


class Counting(northbridge.Acceleration):
    count = 5.0

    def compilations(self) -> dict[str, float]:
        self.count += 1
        return {"graphs compiled": self.count}


def test_the_vendors_counts_are_those_since_the_start(
    monitor: Any, fit: Any, run_on: Callable[[Backend], None]
) -> None:
    run_on(replace(declared.load("cpu_sim"), acceleration=Counting()))
    watch = monitor()
    fit(watch, 4, accelerator="cpu_sim", devices=1)

    assert 1 <= watch.counts()["graphs compiled"] < 6
    assert "graphs compiled: " in watch.table()


def test_a_chip_that_compiles_nothing_refuses_it(monitor: Any, fit: Any, claims: Any) -> None:
    claims(recompilation=northbridge.no("its kernels are built in"))
    chip: dict[str, Any] = {"accelerator": "cpu_sim", "devices": 1}

    said = refusal(northbridge.UnsupportedError, fit, monitor(), 4, capability="recompilation", **chip)

    assert said.startswith("RecompilationMonitor: 'cpu_sim' has no graphs to count: its kernels are built in. Fix: ")


def test_a_row_for_each_graph_and_a_line_for_each_other_count() -> None:
    graphs = [
        SeenGraph("train", 0, "batch", "(8, 32) int64", steps=12),
        SeenGraph("validate", 120, "net.head", "(3, 5) float32"),
    ]

    assert graph_table(graphs, {"cpu_fallback": 3.0}, 13).splitlines() == [
        "RecompilationMonitor: 13 steps of training; graphs: train 1, validate 1",
        "stage     first step  steps  module    inputs",
        "train              0     12  batch     (8, 32) int64",
        "validate         120      1  net.head  (3, 5) float32",
        "cpu_fallback: 3",
    ]


def test_twenty_graphs_are_shown_and_the_rest_is_counted() -> None:
    lines = graph_table([SeenGraph("train", step, "batch", "()") for step in range(25)], {}, 25).splitlines()

    assert len(lines) == 1 + 1 + 20 + 1
    assert lines[-1] == "… and 5 more, the last at step 24"
    assert graph_table([], {}, 0) == "RecompilationMonitor: 0 steps of training; graphs: none"


# --- What counts as a graph


class Net(nn.Module):
    """Selects rows by their values, calls a layer a number of times, and takes a number and keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.head = Head()

    def forward(self, rows: torch.Tensor, *, times: int = 1, scale: float = 1.0) -> torch.Tensor:
        for _ in range(times):
            rows = self.first(rows)
        out: torch.Tensor = self.head(rows[rows[:, 0] > 0], scale=scale, flag=times > 2)
        return out


class Head(nn.Module):
    def forward(self, rows: torch.Tensor, scale: float, flag: bool) -> torch.Tensor:
        return rows.sum() * scale


@pytest.fixture
def net() -> Net:
    net = Net()
    nn.init.eye_(net.first.weight)
    nn.init.zeros_(net.first.bias)
    return net


def steps(net: Net, *calls: Any) -> list[SeenGraph | None]:
    """Return the new graph of each step, which gets rows and options."""
    graphs = DistinctGraphs()
    graphs.attach(net)
    found = []
    for number, (rows, options) in enumerate(calls):
        graphs.begin_step(rows)
        net(rows, **options)
        found.append(graphs.end_step("train", number))
    graphs.detach()
    return found


def rows(*first: float) -> torch.Tensor:
    return torch.tensor([[number, 0.0, 0.0] for number in first])


def told(found: list[SeenGraph | None]) -> list[tuple[str, str] | None]:
    return [(graph.module, graph.inputs) if graph else None for graph in found]


def test_a_new_shape_of_the_batch_is_a_new_graph(net: Net) -> None:
    found = steps(net, (rows(1, 1), {}), (rows(1, 1), {}), (rows(1, 1, 1), {}), (rows(1, 1), {}))

    assert told(found) == [("batch", "(2, 3) float32"), None, ("batch", "(3, 3) float32"), None]
    assert found[0] is not None
    assert (found[0].first_step, found[0].steps) == (0, 3)


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([(rows(1, 1), {}), (rows(1, -1), {}), (rows(-1, 1), {})], [("head", "(1, 3) float32"), None]),
        ([(rows(1), {}), (rows(1), {"scale": 0.5}), (rows(1), {"times": 3})], [None, ("head", "(1, 3) float32")]),
        ([(rows(1), {}), (rows(1), {"times": 2})], [("all", "known inputs, but in another order")]),
    ],
    ids=["a shape by values", "whole numbers and booleans, no floats", "a call more"],
)
def test_what_a_module_gets_makes_a_graph(net: Net, calls: Any, found: list[Any]) -> None:
    assert told(steps(net, *calls))[1:] == found


def test_another_dtype_and_another_mode_are_new_graphs(net: Net) -> None:
    half = net.to(torch.float64)

    assert told(steps(half, (rows(1).double(), {}))) == [("batch", "(1, 3) float64")]
    graphs = DistinctGraphs()
    graphs.attach(half)
    for training in (True, False, True):
        graphs.begin_step(None)
        half.train(training)(rows(1).double())
        graphs.end_step("train", 0)
    assert [graph.module for graph in graphs.graphs.values()] == ["batch", "first (eval)"]


def test_nested_inputs_and_the_objects_of_a_batch_are_read() -> None:
    graphs = DistinctGraphs()
    found = []
    for batch in (
        {"a": (rows(1), [rows(1, 1)]), "n": None},
        {"a": (rows(1), [rows(1)]), "n": None},
        SimpleNamespace(tokens=torch.zeros(2, 3)),
        SimpleNamespace(tokens=torch.zeros(2, 4)),
    ):
        graphs.begin_step(batch)
        found.append(graphs.end_step("train", 0))

    assert told(found) == [
        ("batch", "(1, 3) float32, (2, 3) float32"),
        ("batch", "(1, 3) float32, (1, 3) float32"),
        ("batch", "(2, 3) float32"),
        ("batch", "(2, 4) float32"),
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit
def test_a_scripted_module_is_left_alone(net: Net) -> None:
    net.add_module("first", torch.jit.script(net.first))

    assert told(steps(net, (rows(1), {}))) == [("batch", "(1, 3) float32")]


def test_after_a_thousand_graphs_none_is_explained() -> None:
    graphs, last = DistinctGraphs(), None
    for length in range(1002):
        graphs.begin_step(torch.empty(length))
        last = graphs.end_step("train", length)

    assert len(graphs.graphs) == 1002
    assert last is not None
    assert (last.module, last.inputs) == ("?", "not looked for after 1000 graphs")
