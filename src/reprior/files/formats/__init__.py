"""One module per format: what opens a file of it, and what writes one."""
