"""One module per family of output files: each writes a posterior chunk by chunk."""
