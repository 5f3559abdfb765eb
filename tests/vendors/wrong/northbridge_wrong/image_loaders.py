"""Faults in the vendor's loader of images."""

import northbridge_right as right


@right.wrong
class PicturesRepeat(right.Acceleration):
    """An epoch has its first batch twice, and not its last."""

    def image_loader(self, dataset, **options):
        return _Repeating(super().image_loader(dataset, **options))


@right.wrong
class LabelsShifted(right.Acceleration):
    """A picture in a batch has its neighbour's label."""

    def image_loader(self, dataset, **options):
        return [(images, labels.roll(1)) for images, labels in super().image_loader(dataset, **options)]


@right.wrong
class SecondEpochEmpty(right.Acceleration):
    """The loader has no second epoch."""

    def image_loader(self, dataset, **options):
        return iter(super().image_loader(dataset, **options))


class _Repeating:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        first, *others = self.loader
        return iter([first, first, *others[:-1]])
