"""Faults in the vendor's loader of images."""

import northbridge_right as right


@right.wrong("C1/ImageLoaders/test_each_image_comes_once_per_epoch")
class PicturesRepeat(right.Acceleration):
    """A loader repeats a batch."""

    def image_loader(self, dataset, **options):
        return _Repeating(super().image_loader(dataset, **options))


@right.wrong("C1/ImageLoaders/test_each_image_comes_once_per_epoch")
class LabelsShifted(right.Acceleration):
    """A loader gives a picture another's label."""

    def image_loader(self, dataset, **options):
        return [(images, labels.roll(1)) for images, labels in super().image_loader(dataset, **options)]


@right.wrong("C1/ImageLoaders/test_each_image_comes_once_per_epoch")
class SecondEpochEmpty(right.Acceleration):
    """A loader has one epoch."""

    def image_loader(self, dataset, **options):
        return iter(super().image_loader(dataset, **options))


class _Repeating:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        first, *others = self.loader
        return iter([first, first, *others[:-1]])
