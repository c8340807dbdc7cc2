"""One module per format of score files: each opens a file and gives it in blocks of rows."""
