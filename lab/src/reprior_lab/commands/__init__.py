"""The commands that the lab adds to ``reprior``: ``train`` and ``reproduce``."""
