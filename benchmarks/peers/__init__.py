"""The engines: one file each. A file has `engine(case, size)`, which gives an `Engine`."""
