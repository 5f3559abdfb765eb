"""Class names of packages that vendors have archived, and the classes of Northbridge behind them."""
