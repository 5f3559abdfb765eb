"""What a scenario's processes can be told to do: a module each, with ``perform(scenario, folder)``.

Every process of the run performs it from its start, as it would a user's script.
"""
