"""Re-set the prior of a trained classifier."""

__all__: list[str] = []
