"""Replacements in Lightning: ``table`` has every row, the other files the code behind them."""
