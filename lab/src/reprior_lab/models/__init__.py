"""Networks by name: ``registry.build_model``."""
