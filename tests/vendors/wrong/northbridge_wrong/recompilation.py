"""Faults in the vendor's counts of compiled graphs."""

import itertools

import northbridge_right as right


@right.wrong("C1/Compilations/test_compile_count_grows_only_with_new_shapes")
class CountsNeverGrow(right.Acceleration):
    """The count of compiled graphs stays that of its first call."""

    def compilations(self):
        self.first = getattr(self, "first", None) or super().compilations()
        return self.first


@right.wrong("C1/Compilations/test_compile_count_grows_only_with_new_shapes")
class CountsReset(right.Acceleration):
    """The count of compiled graphs begins anew at each call."""

    before = 0.0

    def compilations(self):
        total = super().compilations()["graphs"]
        since, self.before = total - self.before, total
        return {"graphs": since}


@right.wrong("C1/Compilations/test_compile_count_grows_only_with_new_shapes")
class CountsEachStep(right.Acceleration):
    """A graph counts as compiled each time it runs."""

    calls = itertools.count(1)

    def compilations(self):
        return {"graphs": super().compilations()["graphs"] + next(self.calls)}
