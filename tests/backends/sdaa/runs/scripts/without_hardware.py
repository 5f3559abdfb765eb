"""Import what a script for Teco cards imports, on a machine that has none, and ask."""

from northbridge_sdaa import SDAAAccelerator, SDAADDPStrategy, SDAAPrecisionPlugin

strategy, precision = SDAADDPStrategy(), SDAAPrecisionPlugin("16-mixed")
print("available:", SDAAAccelerator.is_available())
