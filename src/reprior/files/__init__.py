"""Files in and out: written atomically, read without pickle."""
