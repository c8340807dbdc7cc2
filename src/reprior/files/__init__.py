"""Files in and out: written atomically, read without pickle."""

from reprior.files.atomic import atomic_paths, atomic_write

__all__ = ["atomic_paths", "atomic_write"]
