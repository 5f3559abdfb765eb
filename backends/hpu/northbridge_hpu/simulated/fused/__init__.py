"""The vendor's fused optimizers, its norm clip and its moving average, and the operators that they call."""
