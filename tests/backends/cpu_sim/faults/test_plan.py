"""Plans of faults: what the variable and the constructor take, and what they refuse."""

from __future__ import annotations

import pytest

from northbridge import SettingsError
from northbridge_cpu_sim import Fault, FaultError, planned_faults
from northbridge_cpu_sim.faults.fault import read_plan


def test_a_plan_is_faults_with_semicolons_between() -> None:
    plan = read_plan("kill rank=1 step=5; slow op=all_reduce seconds=0.2 times=always;raise op=aten::mm after=100;")

    assert plan == (
        Fault("kill", rank=1, step=5),
        Fault("slow", op="all_reduce", seconds=0.2, times="always"),
        Fault("raise", op="mm", after=100),
    )


def test_no_text_plans_nothing() -> None:
    assert read_plan("") == read_plan(" ; ") == ()


def test_a_quoted_message_may_hold_blanks_and_semicolons() -> None:
    (fault,) = read_plan("raise op=mm message='bus error; again'")

    assert fault.message == "bus error; again"


def test_what_a_fault_is_called_plans_it_again() -> None:
    faults = read_plan("corrupt op=all_reduce seq=7 value=inf; oom probability=0.01 times=always seed=3")
    faults += read_plan("raise op=aten::mm message='bus error'")

    assert read_plan("; ".join(map(str, faults))) == faults


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("mm", "aten::mm"),
        ("aten::add_", "aten::add_"),
        ("gather", "gather"),
        ("convolution", "aten::convolution"),
        ("synchronize", "synchronize"),
    ],
)
def test_op_has_its_name_in_torch_or_the_library(name: str, full: str) -> None:
    assert Fault("raise", op=name).op == full


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kil rank=1", "unknown kind 'kil': did you mean kill?"),
        ("explode", "there are kill, hang, slow, raise, oom, corrupt, lose"),
        ("kill rnk=1", "a fault has no 'rnk': did you mean rank?"),
        ("kill step=-1", "step='-1' is not a whole number from 0"),
        ("kill times=often", "times='often' is not a whole number from 1, or always"),
        ("oom probability=2", "probability='2' is not a number above 0 and up to 1"),
        ("kill step", "'step' is not name=value, such as step=5"),
        ("kill step=1 step=2", "step is given twice. Fix: leave one out"),
        ("slow op=mm", "the kind slow needs seconds, such as seconds=0.5"),
        ("kill seconds=3", "seconds is for the kind slow, not kill. Fix: leave it out"),
        ("oom seed=3", "seed needs probability"),
        ("kill seq=4", "seq needs op, as each op has its own count. Fix: give op"),
        ("corrupt bit=1 value=2", "value and bit contradict"),
        ("corrupt op=barrier", "barrier has no result to corrupt. Fix: name another op"),
        ("corrupt op=empty", "aten::empty computes nothing. Fix: corrupt the op"),
        ("corrupt op=resize_", "aten::resize_ computes nothing"),
        (
            "corrupt op=_local_scalar_dense",
            "aten::_local_scalar_dense returns no tensor. Fix: corrupt the op before it",
        ),
        ("raise op=all_reduc", "no such operator or collective: did you mean all_reduce"),
        ("raise op=zzzzz", "write it as torch does, such as aten::mm or all_reduce"),
        ("raise op=matmul", "aten::matmul consists of other operators"),
        ("raise op=view", "aten::view touches no memory"),
        ("raise op=native_dropout", "aten::native_dropout consists of other operators"),
        ("raise op=c10d::allreduce_", "c10d::allreduce_ wraps a collective. Fix: name it"),
    ],
)
def test_wrong_plan_is_refused_with_the_wrong_fault(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_plan(f"kill rank=7; {text}")

    assert str(caught.value).startswith(f"the fault {text!r} of NORTHBRIDGE_CPU_SIM_FAULTS cannot be planned: ")
    assert said in str(caught.value)
    assert caught.value.variable == "NORTHBRIDGE_CPU_SIM_FAULTS"


def test_a_quote_that_is_not_closed_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"has an open quote\. Fix: close it"):
        read_plan("raise message='bus error")


def test_a_wrong_fault_is_refused_where_it_is_made() -> None:
    with pytest.raises(FaultError, match=r"^a fault needs a kind: kill"):
        Fault()  # type: ignore[call-arg]
    with pytest.raises(FaultError, match=r"^step=1\.5 is not a whole number from 0"):
        Fault("kill", step=1.5)  # type: ignore[arg-type]


def test_a_context_takes_faults_alone() -> None:
    with (
        pytest.raises(TypeError, match=r"planned_faults\(\) got 'kill'\. Fix: Fault\("),
        planned_faults("kill"),  # type: ignore[arg-type]
    ):
        pass
