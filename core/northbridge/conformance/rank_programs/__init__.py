"""Programs of a run's ranks: a module each, named as the tests that read its findings where possible.

A step of a scenario is a module, of which ``perform(scenario, folder)`` runs, or a module and one of its functions:
``checkpoints.save``. Every process of the run does it from its start, as it would a user's script.
"""
