"""The base classes of the suite's tests, and the runs that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

import northbridge
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.optional_pytest import IS_HERE, pytest
from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.comparison import differences_from_cpu
from northbridge_conformance.runs.scenario import Scenario

JUDGES = (f"{__package__}.pytest_plugin", f"{__package__}.runner.recorder")
"""The pytest plugins that judge the suite's tests: they import this module, which asks pytest whether it has one."""

MODELS = ("mlp", "convnet", "transformer", "tied")
"""The models that every way of training is tested with."""

TRAINERS = tuple(name for name, namespace in NAMESPACES.items() if namespace.is_trainer)
FABRICS = tuple(name for name, namespace in NAMESPACES.items() if not namespace.is_trainer)

Steps = Mapping[tuple[str, int], tuple[str, ...]]
"""The steps of one run, for each host and number of devices."""


def _refer(*steps: str) -> tuple[str, ...]:
    """Return references to functions of ``tests.lightning``, by name: its modules import this one."""
    return tuple(f"{__package__}.tests.lightning.{step}" for step in steps)


_BOTH = ("training:train", "precision:train_mixed", "checkpoints:save", "checkpoints:resume")
_TRAINER = (*_BOTH, "training:run_stages", "training:optimize_manually")
_TRAINER_ALONE = ("training:tune", "random_states:draw_and_resume", "training:log_device_stats")
_ALONE = (
    "precision:train_scaled",
    "precision:train_precisions",
    "devices:request_devices",
    "devices:try_unsupported",
)
_TWO_TRAINERS = ("random_states:draw_and_resume", "reductions:log_metrics", "ddp:train_with_options")
_TOGETHER = ("reductions:reduce_numbers", "ddp:compare_weights")

BASICS: Steps = {
    ("Trainer", 1): _refer(*_TRAINER, "checkpoints:save_within_epoch", *_TRAINER_ALONE, *_ALONE),
    ("Trainer", 2): _refer(*_TRAINER, *_TWO_TRAINERS, "normalization:train_normalized", *_TOGETHER),
    ("Fabric", 1): _refer(*_BOTH, "checkpoints:save_within_epoch", *_ALONE),
    ("Trainer", 4): _refer(*_TRAINER, *_TOGETHER),
    ("Fabric", 2): _refer(*_BOTH, "normalization:train_normalized", *_TOGETHER),
    ("Fabric", 4): _refer(*_BOTH, "reductions:reduce_numbers"),
}
"""The steps that run in every mode of a chip."""

_FIRST = ("hooks:set_variables", "hooks:record_calls")  # they observe the loading of the chip's software
_OF_TRAINERS = (
    "optimization:optimize",
    "callbacks:train_with_callbacks",
    "data_loaders:load_data",
    "failed_checkpoints:fail_to_save",
    "compilation:monitor_graphs",
)
USES: Steps = {
    ("Trainer", 1): _refer(
        *_FIRST,
        *_OF_TRAINERS,
        "training:train_repeatedly",
        "released:release_all",
        "callbacks:profile",
        "compilation:train_compiled",
        "compilation:monitor_graphs",
    ),
    ("Trainer", 2): _refer(
        *_OF_TRAINERS,
        "released:release_all",
        "callbacks:profile",
        "compilation:train_compiled",
        "deepspeed:train_with_deepspeed",
    ),
    ("Fabric", 1): _refer(
        *_FIRST,
        "failed_checkpoints:fail_to_save",
        "fabric:loop",
        "released:release_all",
        "compilation:train_compiled",
    ),
    ("Fabric", 2): _refer(
        "failed_checkpoints:fail_to_save",
        "fabric:loop",
        "fabric:join",
        "released:release_all",
        "compilation:train_compiled",
    ),
}
"""Steps beyond the basics, as users run them; in runs of their own, so that not every mode pays for them."""

_OF_THE_CHIP_ALONE = _refer(
    "ddp:compare_weights",
    "deepspeed:train_with_deepspeed",
    "devices:request_devices",
    "compilation:train_compiled",
    "compilation:monitor_graphs",
    "random_states:draw_and_resume",
    "hooks:record_calls",
    "hooks:set_variables",
    "checkpoints:save_within_epoch",
    "failed_checkpoints:fail_to_save",
    "training:log_device_stats",
    "training:train_repeatedly",
    "released:release_all",
    "normalization:train_normalized",
    "reductions:reduce_numbers",
    "callbacks:profile",
    "devices:try_unsupported",
    "precision:train_precisions",
    "precision:train_scaled",
)


def always(*steps: str) -> Steps:
    """Return a mapping of ``steps`` for every run, which is separate from the runs of other classes."""
    return defaultdict(lambda: steps)


Runs = tuple[tuple[str, int], ...]
"""A namespace and a number of devices for each run that a class reads."""


def in_each(*namespaces: str, devices: tuple[int, ...] = (1,)) -> Runs:
    """Return a run in each of ``namespaces`` with each number of ``devices``."""
    return tuple((namespace, number) for number in devices for namespace in namespaces)


def one_and_two_devices(*namespaces: str) -> Runs:
    """Return a run in each of ``namespaces`` with one device, and in the first Trainer and Fabric with two."""
    return in_each(*namespaces) + _in_the_first(namespaces, 2)


def one_and_several_devices(*namespaces: str) -> Runs:
    """Return a run in each of ``namespaces`` with one and two devices, in the first of each kind with four."""
    return in_each(*namespaces, devices=(1, 2)) + _in_the_first(namespaces, 4)


def several_devices(*namespaces: str) -> Runs:
    """Return a run in each of ``namespaces`` with two devices, and in the first Trainer and Fabric with four."""
    return in_each(*namespaces, devices=(2,)) + _in_the_first(namespaces, 4)


def _in_the_first(namespaces: tuple[str, ...], devices: int) -> Runs:
    # Namespaces of a kind differ in their imports, not in how ranks meet: more of them would only take longer.
    return tuple((namespace, devices) for namespace in (TRAINERS[0], FABRICS[0]) if namespace in namespaces)


Differences = Callable[..., list[str]]
"""The type of the fixture ``differences``."""

Test = TypeVar("Test", bound=Callable[..., None])


def shows(*claims: str) -> Callable[[Test], Test]:
    """Declare the claims that a test shows; its verdict depends on the backend's answers to them.

    A claim may be the value of one of the test's parameters: ``shows("{dtype}")``. Values that are not claims, such as
    a dtype that every chip has, are ignored.
    """

    def decorate(test: Test) -> Test:
        test.claims = claims  # type: ignore[attr-defined]  # read by the recorder
        return test

    return decorate


class Suite:
    """The base of every test class: the fixtures that a backend's tests override."""

    level: ClassVar[str] = ""
    """The level at which a backend's tests have adopted the class."""

    adopted_for: ClassVar[str] = ""
    """The backend whose tests have adopted the class."""

    claims: tuple[str, ...] = ()
    """The claims that all tests of the class show; for a single test see :func:`shows`."""

    advice: ClassVar[str] = ""
    """The place where the vendor of a failing backend should look."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Reject the collection if nothing judges the tests; pytest calls it for each function of the class."""
        if not any(map(metafunc.config.pluginmanager.has_plugin, JUDGES)):
            raise pytest.Collector.CollectError(
                f"{type(self).__qualname__}: pytest has not loaded Northbridge's plugin, which judges these tests."
                f' Fix: addopts = ["-p", "{JUDGES[0]}"] in [tool.pytest.ini_options]'
            )
        if not IS_HERE:
            raise pytest.Collector.CollectError(f"{__name__} was imported before pytest. Fix: import it first")

    @pytest.fixture
    def backend(self) -> str:
        """The backend's name."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture `backend` (its name)")

    @pytest.fixture
    def environ(self) -> dict[str, str]:
        """Variables that are set for the processes of a run."""
        return {}


class NamespaceSuite(Suite):
    """The base of classes that test runs through a namespace of Lightning.

    Each of its tests runs once for each of its :attr:`runs`.
    """

    runs: Runs = ()
    least_devices: int = 1
    """The number of devices that the runs need; it decides the level even if a run uses fewer."""

    claims_of_several: tuple[str, ...] = ()
    """The claims that its tests show with several devices, instead of :attr:`claims`; empty for the same."""

    steps: Steps = BASICS

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each run; pytest calls it for each function of the class."""
        super().pytest_generate_tests(metafunc)
        words = {1: "one device", 2: "two devices", 4: "four devices"}
        names = ("namespace", "devices") if "devices" in metafunc.fixturenames else ("namespace",)
        values = self.runs if len(names) == 2 else tuple((namespace,) for namespace, _ in self.runs)
        metafunc.parametrize(names, values, ids=[f"{words[devices]}-{namespace}" for namespace, devices in self.runs])

    @pytest.fixture
    def chip(self, backend: str, namespace: str, devices: int, environ: dict[str, str]) -> RunResult:
        """The run on the chip."""
        require_devices(backend, devices)
        return chip_run(backend, namespace, devices, environ, self.steps)

    @pytest.fixture
    def cpu(self, namespace: str, devices: int) -> RunResult:
        """Lightning's own run on the same number of CPU ranks."""
        return cpu_run(namespace, devices, self.steps)

    @pytest.fixture
    def differences(self, backend: str, chip: RunResult, cpu: RunResult) -> Differences:
        """A function that compares every rank's findings on a topic, or one fact, as :func:`differences_from_cpu`."""

        def find(topic: str, fact: str = "", **options: Any) -> list[str]:
            found, expected = (result.each(topic, fact) if fact else result.ranks(topic) for result in (chip, cpu))
            return differences_from_cpu(backend, found, expected, **options)

        return find

    @pytest.fixture
    def device(self, backend: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> northbridge.Device:
        """The chip as this process sees it, under the variables of a run."""
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return northbridge.load(backend).device


class UsesSuite(NamespaceSuite):
    """The base of classes that test uses beyond the basics."""

    steps: Steps = USES


class EqualWeights(NamespaceSuite):
    """Every model, trained on the chip by each rank, has the weights of Lightning's own run on as many CPU ranks."""

    @pytest.mark.parametrize("model", MODELS)
    def test_weights_match_a_cpu_run_on_each_rank(self, differences: Differences, model: str) -> None:
        assert differences(f"train {model}", "weights") == []

    @pytest.mark.parametrize("model", MODELS)
    def test_all_ranks_have_equal_parameters(self, chip: RunResult, devices: int, model: str) -> None:
        learnt = chip.each(f"train {model}", "learnt")

        # Parameters only: each rank has its own batch norm statistics.
        assert learnt == learnt[:1] * devices


def suite_of(item: pytest.Item) -> type[Suite] | None:
    """Return the class of a test of the suite; None for a test of another kind, which is not ours to judge."""
    owner: Any = getattr(item, "cls", None)
    return owner if isinstance(owner, type) and issubclass(owner, Suite) else None


def require(namespace: str) -> None:
    """Skip the test if ``namespace`` is not installed."""
    if find_spec(namespace.partition(".")[0]) is None:
        pytest.skip(f"{namespace} is not installed")


def require_devices(backend: str, devices: int) -> None:
    """Skip the test if this machine has fewer than ``devices`` of the chip, or lacks the vendor's software."""
    try:
        count = northbridge.load(backend).device.count()
    except northbridge.SoftwareMissingError as error:
        pytest.skip(str(error))
    if count < devices:
        pytest.skip(f"it needs {devices} devices of {backend}, and this machine has {count}")


def chip_run(backend: str, namespace: str, devices: int, environ: dict[str, str], steps: Steps = BASICS) -> RunResult:
    """Return the run of all ``steps`` on the chip, through ``namespace`` with that number of devices."""
    require(namespace)
    asked = steps[NAMESPACES[namespace].host, devices]
    resume = str(cpu_run(namespace, devices).folder) if _refer("checkpoints:resume")[0] in asked else ""
    return run(Scenario(backend, namespace, asked, devices, resume=resume), environ)


def cpu_run(namespace: str, devices: int, steps: Steps = BASICS) -> RunResult:
    """Return Lightning's own run on that number of CPU ranks, for comparison."""
    require(namespace)
    asked = tuple(step for step in steps[NAMESPACES[namespace].host, devices] if step not in _OF_THE_CHIP_ALONE)
    return run(Scenario("cpu", _same_sources(namespace), asked, devices))


def _same_sources(namespace: str) -> str:
    """Return the first namespace with the same host and version as ``namespace``: they share their CPU runs."""
    host, version = NAMESPACES[namespace].host, NAMESPACES[namespace].version
    alike: Any = (
        name
        for name, other in NAMESPACES.items()
        if other.host == host and find_spec(name.partition(".")[0]) is not None and other.version == version
    )
    return str(next(alike))
