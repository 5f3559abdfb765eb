"""Every row of the table, in the order in which they are shown."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from bench import many_ranks, sides, start
from bench.job import Job
from bench.row import Compared, Question, Row, Timed
from bench.sides import Pair

_CHIP, _OVER_GLOO = "cpu_sim ÷ CPU", "cpu_sim over simccl ÷ CPU over Gloo"
_BACKWARD = (
    "torch's engine asks a device, not the CPU, for streams around each node: 1 of 2.5 µs; the product has 0.4. That is"
    " torch's to change"
)
_FLOAT16 = (
    "the processor multiplies bfloat16 itself (AVX512-BF16), and float16 only as float32. One with AVX512-FP16 would be"
    " needed"
)
_OPTIONS = {
    "deferred-streams": ("deferred streams", {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}),
    "nan-in-fresh-memory": ("NaN in fresh memory", {"NORTHBRIDGE_CPU_SIM_FRESH": "nan"}),
    "trap-in-freed-memory": ("a trap in freed memory", {"NORTHBRIDGE_CPU_SIM_FREED": "trap"}),
    "asynchronous-errors": ("asynchronous errors", {"NORTHBRIDGE_CPU_SIM_ERRORS": "asynchronous"}),
    "checked-collectives": ("checked collectives", {"NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1"}),
    "flight-recorder": ("the flight recorder", {"NORTHBRIDGE_FLIGHT_RECORDER": "{folder}"}),
    # A step that never comes.
    "planned-fault": ("a planned fault", {"NORTHBRIDGE_CPU_SIM_FAULTS": "raise op=mm step=1000000000"}),
}
"""The strict options of the chip, a row each: with what, and the variables that switch it on (:class:`Side`'s)."""

_STRATEGY = "six of the 3,743 Python calls in a step are ours, which explains 0.2 %; the rest is not traced"


def _operation(name: str, what: str, goal: float | None, calls: int, missed: str = "") -> Row:
    """``calls`` take a few hundredths of a second."""
    chip, cpu = ({"operation": name, "device": device, "calls": calls} for device in ("cpu_sim", "cpu"))
    how = Compared(sides.OPERATIONS, (chip, cpu), shown=(1e6, "µs"), rounds=7)
    return Row(f"op-{name}", f"one operation, {what}: {_CHIP}", "×", goal, how, missed)


def _fit(
    name: str, what: str, goal: float | None, pair: Pair, first: Job, second: Job, missed: str = "", **how: Any
) -> Row:
    """Its steps take about a second on two cores."""
    asked = asdict(first), asdict(second)
    return Row(name, what, "×", goal, Compared(pair, asked, **{"answer": "step_seconds", **how}), missed)


def _step(
    name: str, what: str, goal: float | None, task: str, steps: int, precision: str = "32-true", missed: str = ""
) -> Row:
    chip = Job(task, "cpu_sim", steps, precision=precision)
    # float16 on a CPU has no kernels to compare with.
    cpu = Job(task, "cpu", steps, precision=precision.replace("16-mixed", "bf16-mixed").replace("bfbf", "bf"))
    return _fit(name, what, goal, sides.STEPS, chip, cpu, missed)


def _two_ranks(name: str, what: str, goal: float | None, pair: Pair, task: str, steps: int, **job: Any) -> Row:
    chip, cpu = (Job(task, device, steps, devices=2, threads=1, **job) for device in ("cpu_sim", "cpu"))
    return _fit(name, what, goal, pair, chip, cpu)


def _simulated(chip: str, named: str, devices: int, pair: Pair) -> Row:
    ours, plain = (Job("convnet", each, 30, devices=devices, threads=1) for each in (chip, "cpu_sim"))
    kind, name = ("training step", f"step-{chip}") if devices == 1 else ("2-rank DDP step", f"step-{chip}-ddp")
    return _fit(name, f"{kind}, ConvNet: {named} ÷ cpu_sim", 1.05, pair, ours, plain)


def _collective(name: str, said: str, size: int, calls: int, goal: float) -> Row:
    """``size`` is the bytes of the larger tensor: what all ranks have reduced, hand out, or gathered."""
    question = {"collective": name, "bytes": size, "times": calls}
    shown = f"{name}, 2 ranks, {said}: simccl ÷ Gloo"
    return Row(f"{name}-{said.replace(' ', '').lower()}", shown, "×", goal, Compared(sides.RANKS, (question, question)))


def _plain_step(name: str, what: str, goal: float | None, pair: Pair, kind: str, task: str, times: int) -> Row:
    question: Question = {"step": kind, "task": task, "times": times}
    return Row(name, what, "×", goal, Compared(pair, (question, question)))


def _checkpoint(name: str, what: str, goal: float, pair: Pair, answer: str, **how: Any) -> Row:
    chip, cpu = ({"accelerator": accelerator} for accelerator in ("cpu_sim", "cpu"))
    return Row(name, f"{what}: {_CHIP}", "×", goal, Compared(pair, (chip, cpu), answer, **how))


_PEAK: dict[str, Any] = {"answer": "peak_bytes", "shown": (2**-20, "MiB"), "rounds": 1, "once": True}
_CONVNET = Job("convnet", "cpu_sim", 30, threads=1)
_MLP = Job("mlp", "cpu_sim", 150, threads=1)

ROWS = (
    _operation("add-4", "add of 4 floats", 1.3, 20000),
    _operation("add-million", "add of a million floats", 1.05, 200),
    _operation("view", "a view", 1.0, 20000),
    _operation("mm-64", "mm of 64×64", 1.3, 4000),
    _operation("backward", "the backward of a product of 4 floats", 1.0, 3000, _BACKWARD),
    Row(
        "step-captured",
        "training step of many small operations on cpu_sim: captured ÷ eager",
        "×",
        0.9,
        Compared(
            sides.CAPTURED,
            (
                {"operation": "captured-step", "device": "cpu_sim", "calls": 20},
                {"operation": "step", "device": "cpu_sim", "calls": 20},
            ),
        ),
    ),
    _step("step-mlp", f"training step, MLP 784-512-512-10, batch 128: {_CHIP}", 1.03, "mlp", 150),
    _step("step-convnet", f"training step, ConvNet, 28×28, batch 64: {_CHIP}", 1.02, "convnet", 40),
    _step(
        "step-transformer",
        f"training step, Transformer, 4×256, sequence 128, batch 8: {_CHIP}",
        1.02,
        "transformer",
        6,
    ),
    _step(
        "step-16-mixed",
        f"training step in 16-mixed, Transformer: {_CHIP} in bf16-mixed",
        1.10,
        "transformer",
        6,
        "16-mixed",
        _FLOAT16,
    ),
    _step(
        "step-bf16-mixed",
        f"training step in bf16-mixed, Transformer: {_CHIP}",
        1.10,
        "transformer",
        6,
        "bf16-mixed",
    ),
    _step(
        "step-one-parameter",
        f"training step, one parameter: {_CHIP}",
        1.10,
        "one-parameter",
        400,
        # AdamW alone: 105 µs against 53 µs. With eight parameters both take 219 µs.
        missed="torch steps a device's parameters in lists, which for one parameter takes twice as long as on the CPU."
        " torch would have to step few of them singly",
    ),
    _fit(
        "memory",
        f"peak memory of the process, ConvNet: {_CHIP}",
        1.10,
        sides.MEMORY,
        Job("convnet", "cpu_sim", 20),
        Job("convnet", "cpu", 20),
        **_PEAK,
    ),
    _fit(
        "strategy",
        "training step, one parameter, on the CPU: our strategy ÷ Lightning's",
        1.00,
        sides.HOST,
        Job("one-parameter", "host", 300, threads=1),
        Job("one-parameter", "cpu", 300, threads=1),
        shown=(1e6, "µs"),
        rounds=9,
        missed=_STRATEGY,
    ),
    _fit(
        "recompilation-watch",
        "training step, MLP: with RecompilationMonitor ÷ without, on cpu_sim",
        1.02,
        sides.WATCHED,
        replace(_MLP, watched=True),
        _MLP,
        rounds=5,
    ),
    *(
        _fit(
            f"snapshots-{name}",
            f"training step, ConvNet, on cpu_sim: {what} ÷ without Snapshots",
            goal,
            sides.SNAPSHOTS,
            replace(_CONVNET, snapshots=recorded),
            _CONVNET,
        )
        for name, what, recorded, goal in (
            ("recorded", "recorded by Snapshots", True, 2.5),
            ("between", "between recorded steps", False, 1.01),
        )
    ),
    _two_ranks("step-ddp", f"2-rank DDP step, ConvNet: {_OVER_GLOO}", 1.05, sides.LIGHTNING_RANKS, "convnet", 30),
    _two_ranks(
        "sync-dist",
        f"2 ranks, a metric logged with sync_dist: {_OVER_GLOO}",
        1.10,
        sides.LIGHTNING_RANKS,
        "mlp",
        150,
        sync_dist=True,
    ),
    _two_ranks(
        "step-ray",
        f"2-rank step of RayDDPStrategy, ConvNet: {_OVER_GLOO}",
        1.10,
        sides.RAY_RANKS,
        "convnet",
        30,
        ray=True,
    ),
    _simulated("hpu", "the simulated Gaudi", 1, sides.HPU),
    _simulated("hpu", "the simulated Gaudi", 2, sides.HPU_RANKS),
    _simulated("sdaa", "the simulated Teco card", 1, sides.SDAA),
    _simulated("sdaa", "the simulated Teco card", 2, sides.SDAA_RANKS),
    *(
        _fit(
            name,
            f"2-rank step, ConvNet: ddp_mixed on the simulated Gaudi and Teco card, {said} ÷ DDP on the Teco card",
            goal,
            sides.MIXED_RANKS,
            Job("convnet", "auto", 30, devices=2, threads=1, sync_every=sync_every),
            Job("convnet", "sdaa", 30, devices=2, threads=1),
        )
        for name, said, goal, sync_every in (
            ("step-mixed", "between synchronizations", 1.5, 100),
            ("step-mixed-exact", "synchronized after each", None, 1),
        )
    ),
    *(
        _collective(name, said, size, calls, goal)
        for name in ("all-reduce", "reduce-scatter", "all-gather")
        for said, size, calls, goal in (
            ("4 KiB", 2**12, 300, 1.2),
            ("1 MiB", 2**20, 50, 1.05),
            ("16 MiB", 2**24, 5, 1.05),
        )
    ),
    *(
        Row(
            f"host-all-reduce-{size // 2**20}mib",
            f"all-reduce, 2 ranks, {size // 2**20} MiB: HostCollective ÷ Gloo on CPU tensors",
            "×",
            goal,
            Compared(sides.HOST_RANKS, (question, question)),
        )
        for size, calls, goal in ((2**20, 50, 1.7), (2**24, 5, 2.2))
        for question in [{"collective": "all-reduce", "bytes": size, "times": calls}]
    ),
    _plain_step(
        "step-fsdp2", f"2-rank FSDP2 step, Transformer: {_OVER_GLOO}", 1.10, sides.RANKS, "fsdp2", "transformer", 3
    ),
    _plain_step(
        "step-zero-2",
        f"2-rank DeepSpeed ZeRO-2 step, Transformer: {_OVER_GLOO}",
        1.10,
        sides.ZERO_RANKS,
        "zero-2",
        "transformer",
        3,
    ),
    *(
        _plain_step(
            name,
            f"2-rank DDP step, ConvNet: with {what} ÷ without",
            None,
            sides.with_option(variables),
            "ddp",
            "convnet",
            15,
        )
        for name, (what, variables) in _OPTIONS.items()
    ),
    _checkpoint("checkpoint-save", "a checkpoint of 500 MB, saved", 1.05, sides.CHECKPOINTS, "save_seconds"),
    _checkpoint("checkpoint-load", "a checkpoint of 500 MB, loaded", 1.05, sides.CHECKPOINTS, "load_seconds"),
    _checkpoint("checkpoint-memory", "peak memory of a process that does both", 1.10, sides.CHECKPOINT_MEMORY, **_PEAK),
    _plain_step(
        "checkpoint-sharded",
        f"a sharded save by 2 ranks, Transformer: {_OVER_GLOO}",
        1.10,
        sides.RANKS,
        "sharded-save",
        "transformer",
        5,
    ),
    Row("autoload", "time that autoload adds to `import torch`", "ms", 1.0, Timed(start.time_autoload)),
    Row("help", "`northbridge --help`, the whole process", "s", 0.2, Timed(start.time_help)),
    Row(
        "list-no-probe",
        "`northbridge list --no-probe`, the whole process",
        "s",
        0.25,
        Timed(start.time_listing_of_metadata),
    ),
    Row("list", "`northbridge list`, CPU of all its processes", "s", 3.0, Timed(start.time_list)),
    Row("doctor", "`northbridge doctor`, CPU of all its processes", "s", 10.0, Timed(start.time_doctor)),
    Row(
        "first-step",
        f"from the start of a script to the end of its first step: {_CHIP}",
        "×",
        1.10,
        Timed(start.time_first_step),
    ),
    Row("discovery", "installed() among 100 more plugins ÷ entry_points()", "×", 1.5, Timed(start.time_discovery, 1)),
    Row(
        "start",
        "`northbridge.load('cpu_sim')` beyond `import torch`, the whole process",
        "s",
        0.3,
        Timed(start.time_load),
    ),
    _fit(
        "trainer",
        "another `Trainer()`: the simulated Teco card ÷ CPU",
        2.0,
        sides.TRAINERS,
        Job("one-parameter", "sdaa", 1),
        Job("one-parameter", "cpu", 1),
        answer="trainer_seconds",
        rounds=9,
    ),
    Row(
        "compile",
        "first compile of the chip, 2 compilers at a time",
        "s",
        25.0,
        Timed(start.time_compile, once=True),
        missed="two units at once, of 27 and 25 s of CPU: half is torch's headers and templates, half is -O2. A third"
        " core and a third unit would be needed",
    ),
    Row(
        "ranks-start",
        "64 ranks of `ddp_fork`, to the first step",
        "s",
        None,
        Timed(many_ranks.first_step_of_64, once=True),
    ),
    Row("ranks-memory", "memory of each of 64 ranks", "MB", 120.0, Timed(many_ranks.memory_of_64, once=True)),
)
