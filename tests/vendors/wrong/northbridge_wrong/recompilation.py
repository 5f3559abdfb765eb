"""Faults in the vendor's counts of compiled graphs."""

import itertools

import northbridge_right as right


@right.wrong
class CountsNeverGrow(right.Acceleration):
    """The counts are those of the first call."""

    def compilations(self):
        self.first = getattr(self, "first", None) or super().compilations()
        return self.first


@right.wrong
class CountsReset(right.Acceleration):
    """Each call returns what was compiled since the last one."""

    before = 0.0

    def compilations(self):
        total = super().compilations()["graphs"]
        since, self.before = total - self.before, total
        return {"graphs": since}


@right.wrong
class CountsEachStep(right.Acceleration):
    """A graph that is found in the cache counts as compiled."""

    calls = itertools.count(1)

    def compilations(self):
        return {"graphs": super().compilations()["graphs"] + next(self.calls)}
