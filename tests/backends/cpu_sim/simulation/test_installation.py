"""The simulated chip under another name: a made-up one, PrivateUse1 under the name "flint"."""

from __future__ import annotations

from collections.abc import Callable

import pytest

OnFlint = Callable[..., list[str]]


INSTALLED: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "its own name and card": (
        """
        module = install(device, acquire=lambda: 3)
        print(module is torch.flint, torch.ones(2, device="flint").device, torch.accelerator.current_accelerator())
        print(torch.flint.device_count(), torch.flint.get_device_properties())
        refused(lambda: torch.ones(2, device="flint:1"))
        """,
        [
            "True flint:0 flint",
            "4 DeviceProperties(name='Flint P1', total_memory=1073741824, card=3)",
            "RuntimeError: flint:1 was asked for, but this process holds one card, which it calls flint:0",
        ],
        {},
    ),
    "the environment wins over the file": (
        "install(device); print(torch.flint.device_count(), torch.flint.get_device_properties())",
        ["2 DeviceProperties(name='Another name', total_memory=8388608, card=0)"],
        {"DEVICES": "2", "MEMORY": "8MiB", "NAME": "Another name"},
    ),
    "the vendor's module": (
        """
        import types
        vendors = types.ModuleType("torch_flint")
        vendors._is_in_bad_fork = lambda: False
        vendors.manual_seed_all = print
        module = install(device, module=vendors)
        print(torch.flint is vendors, module.device_count())
        torch.manual_seed(7)
        """,
        ["True 4", "7"],
        {},
    ),
    "a second chip": (
        "install(device); refused(lambda: install(device.model_copy(update={'type': 'other'})))",
        [
            (
                "DeviceTypeTakenError: cannot install 'other': this process has the simulated chip 'flint'. Fix: use"
                " another process"
            )
        ],
        {},
    ),
    "a copy that contradicts itself": (
        "refused(lambda: install(device.model_copy(update={'count': 65})))",
        ["DeviceFileError: the simulated device 'flint': device.count = 65 is not a whole number from 1 to 64"],
        {},
    ),
    "acquire without one card per process": (
        "refused(lambda: install(device.model_copy(update={'one_per_process': False}), acquire=lambda: 0))",
        ["ValueError: acquire needs a 'flint' with one card per process"],
        {},
    ),
    "a function that touches the device itself": (
        """
        install(device, acquire=lambda: int(torch.ones(1, device="flint").item()))
        refused(lambda: torch.ones(1, device="flint"))
        """,
        ["RuntimeError: the function that takes a card has touched the device before it had one"],
        {},
    ),
    "nothing takes the card before the first touch": (
        """
        module = install(device, acquire=lambda: print("taken") or 1)
        module.device_count(), module.is_available(), module.current_device(), torch.manual_seed(1)
        torch.device("flint"), module.get_rng_state(0), torch.accelerator.is_available()
        torch.ones(2, requires_grad=True).sum().backward()
        print("untouched", module.is_initialized())
        torch.ones(1, device="flint") + 1
        print("touched", module.is_initialized())
        """,
        ["untouched False", "taken", "touched True"],
        {},
    ),
    "installed after a backward": (
        """
        torch.ones(2, requires_grad=True).sum().backward()
        install(device)
        print(torch.ones(2, device="flint").sum().item())
        """,
        ["2.0"],
        {},
    ),
    "a backward on a thread of the device": (
        """
        install(device)
        weight = torch.ones(2, device="flint", requires_grad=True)
        weight.register_hook(lambda gradient: print(threading.current_thread() is threading.main_thread()))
        weight.square().sum().backward()
        print(weight.grad.tolist())
        """,
        ["False", "[2.0, 2.0]"],
        {},
    ),
    "a backward on the caller's thread": (
        """
        torch.ones(2, requires_grad=True).sum().backward()
        install(device.model_copy(update={"autograd_threads": False}))
        weight = torch.ones(2, device="flint", requires_grad=True)
        weight.register_hook(lambda gradient: print(threading.current_thread() is threading.main_thread()))
        weight.square().sum().backward()
        """,
        ["True"],
        {},
    ),
}
"""For each case: the program, the lines that it prints, and the simulated chip's variables."""


@pytest.mark.parametrize("case", INSTALLED)
def test_installed_chip_behaves_as_its_file_says(on_flint: OnFlint, case: str) -> None:
    program, expected, variables = INSTALLED[case]

    assert on_flint(program, **{f"NORTHBRIDGE_CPU_SIM_{name}": text for name, text in variables.items()}) == expected


def test_failed_acquire_is_said_at_every_touch(on_flint: OnFlint) -> None:
    said = on_flint(
        """
        answers = [OSError("no card today"), KeyError(), "four", 9, 2]
        def acquire():
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        module = install(device, acquire=acquire)
        for _ in range(5):
            refused(lambda: torch.ones(1, device="flint").item())
        print(module.get_device_properties().card)
        """
    )

    assert said[:3] == [
        "RuntimeError: no card today",
        "RuntimeError: KeyError",
        "RuntimeError: the function that takes a card did not return its number",
    ]
    assert said[3] == "RuntimeError: the function that takes a card returned 9, and there are 4"
    assert said[4:] == ["worked 1.0", "2"]


def test_concurrent_threads_acquire_one_card(on_flint: OnFlint) -> None:
    said = on_flint(
        """
        begun, go, calls = threading.Event(), threading.Event(), []
        def acquire():
            calls.append(threading.current_thread().name)
            begun.set()
            go.wait()  # without the GIL, as a function that asks a driver
            return 1
        install(device, acquire=acquire)
        sums = []
        touches = [
            threading.Thread(target=lambda: sums.append(torch.ones(2, device="flint").sum().item())) for _ in range(4)
        ]
        for touch in touches:
            touch.start()
        begun.wait()
        go.set()
        for touch in touches:
            touch.join()
        print(len(calls), sums)
        """
    )

    assert said == ["1 [2.0, 2.0, 2.0, 2.0]"]


def test_a_forked_child_does_not_hold_its_parents_card(on_flint: OnFlint) -> None:
    said = on_flint(
        """
        module = install(device, acquire=lambda: print("taken by", os.getpid() == parent, flush=True) or 1)
        parent = os.getpid()
        if os.fork() == 0:
            print(torch.ones(2, device="flint").sum().item(), flush=True)
            os._exit(0)
        os.wait()
        torch.ones(1, device="flint")
        if os.fork() == 0:
            print(module.is_initialized(), flush=True)
            refused(lambda: torch.ones(1, device="flint"))
            os._exit(0)
        os.wait()
        print(module.is_initialized())
        """
    )

    assert said[:4] == ["taken by False", "2.0", "taken by True", "False"]
    assert "flint cannot be used in this process: it was forked from one" in said[4]
    assert said[5:] == ["True"]


LACKS = """
refused(lambda: torch.zeros(1, dtype=torch.float16, device="flint"))
refused(lambda: torch.empty_strided((2,), (1,), dtype=torch.float16, device="flint"))
refused(lambda: torch.ones(1, dtype=torch.float16).to("flint"))
refused(lambda: torch.ones(1, device="flint").half())
refused(lambda: torch.ones(2, device="flint").view(torch.float16))
refused(lambda: torch.nn.Linear(2, 2).to("flint", torch.float16))
refused(lambda: torch.complex(torch.ones(2, device="flint"), torch.ones(2, device="flint")))
refused(lambda: torch.fft.fft(torch.ones(4, device="flint")))
refused(lambda: torch.view_as_complex(torch.ones(4, 2, device="flint")))
"""


def test_no_tensor_of_a_lacking_dtype_exists(on_flint: OnFlint) -> None:
    lacks = ["RuntimeError: flint has no half precision"] * 6 + ["RuntimeError: flint has no complex numbers"] * 3
    assert on_flint(f"install(device){LACKS}") == lacks


FLOAT64 = """
import io
def reloaded(tensor):
    torch.save(tensor, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, map_location="flint")
install(device)
third = torch.ones(2, dtype=torch.float64, device="flint") / 3
for found in (
    torch.tensor([0.1, 0.2], dtype=torch.float64).to("flint"),
    torch.full((2,), 0.1, dtype=torch.float64, device="flint"),
    third,
    torch.ones(2, dtype=torch.float64, device="flint").div_(3),
    torch.mul(third, third, out=torch.empty(2, dtype=torch.float64, device="flint")),
    torch._foreach_mul([third], 0.1)[0],
    torch.rand(2, dtype=torch.float64, device="flint"),
    third.expand(3, 2).sum(0),
    torch.stack([third, third]).std(0),
    reloaded(torch.tensor([0.1, 0.2], dtype=torch.float64)),
):
    print(found.device, found.dtype, torch.equal(found.cpu(), found.cpu().float().double()))
"""


def test_float64_is_computed_as_float32(on_flint: OnFlint) -> None:
    assert on_flint(FLOAT64) == ["flint:0 torch.float64 True"] * 10


def test_int64_wraps_as_int32_and_overflow_is_refused(on_flint: OnFlint) -> None:
    said = on_flint(
        """
        install(device)
        most = torch.tensor([2**31 - 1], device="flint")
        print(most.item(), (most + 1).item(), most.clone().mul_(2).item(), torch.arange(5, device="flint").sum().item())
        refused(lambda: torch.tensor([5, 2**31], device="flint"))
        refused(lambda: torch.tensor([-(2**31) - 1]).to("flint"))
        refused(lambda: most.copy_(torch.tensor([10**12])))
        """
    )

    assert said[0] == "2147483647 -2147483648 -2 10"
    assert said[1] == (
        "RuntimeError: Error when trying to cast Long to Int, Input values range [5, 2147483648] exceeds Int range"
        " [-2147483648, 2147483647]"
    )
    assert "range [-2147483649, -2147483649] exceeds Int range" in said[2]
    assert "range [1000000000000, 1000000000000] exceeds Int range" in said[3]


def test_lacking_operation_is_refused_in_the_vendors_words(on_flint: OnFlint) -> None:
    said = on_flint(
        """
        install(device)
        square = torch.ones(1, 2, 2, device="flint")
        refused(lambda: square.cumsum(0))
        refused(lambda: torch.cumsum(square, 0, out=square.clone()))
        refused(lambda: torch.sort(square, stable=True))
        refused(lambda: torch.bmm(square.bfloat16(), square.bfloat16()))
        refused(lambda: torch.bmm(square, square).sum().item())
        refused(lambda: torch.bmm(square.cpu().bfloat16(), square.cpu().bfloat16()).sum().item())
        square.requires_grad_()
        refused(lambda: torch.cumsum(square, 0))
        """
    )

    assert said == [
        "RuntimeError: flint has no cumsum",
        "RuntimeError: flint has no cumsum",
        "RuntimeError: flint sorts no ties",
        "RuntimeError: flint has no bmm for bfloat16",
        "worked 8.0",
        "worked 8.0",
        "RuntimeError: flint has no cumsum",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten::cumsun", "lacks_operations names 'aten::cumsun', which torch lacks: did you mean aten::cumsum"),
        (
            "fft_fft",
            "lacks_operations names 'aten::fft_fft', which torch composes. Fix: name",
        ),
        ("aten::copy_", "lacks_operations names 'aten::copy_', which every chip needs. Fix: name one"),
    ],
)
def test_a_name_that_takes_nothing_away_is_refused(on_flint: OnFlint, name: str, said: str) -> None:
    ended = on_flint(
        f"""
        refused(lambda: install(device.model_copy(update={{"lacks_operations": {{{name!r}: "none"}}}})))
        refused(lambda: install(device))
        """
    )

    assert ended[0].startswith("DeviceFileError: the simulated device 'flint': " + said)
    assert ended[1].startswith("worked")  # nothing had been changed
