"""Programs of a run's ranks: one module each, named after the tests that read its findings where possible.

A step of a scenario names a module, whose ``perform(scenario, folder)`` runs, or one function of a module, such as
``checkpoints.save``. Every process of the run executes it from its start, as it would a user's script.
"""
