"""Programs of a run's ranks: a module each, named as the tests that read its findings where possible.

A step of a scenario names a module, whose ``perform(scenario, folder)`` runs, or one function of a module, such as
``checkpoints.save``. Every process of the run runs it from its start, as it would a user's script.
"""
