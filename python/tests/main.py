#!/usr/bin/env python3
"""Tests of the Python package with a built program.

usage: main.py TESSERA [names of tests]    (exit code 77: skipped, there is no numpy)
"""
import os
import pathlib
import sys
import unittest

try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (Debian: apt install python3-numpy)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: main.py TESSERA [names of tests]")
    os.environ["TESSERA"] = os.path.abspath(sys.argv[1])
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [str(HERE.parent), str(HERE)]
    loader = unittest.defaultTestLoader
    if len(sys.argv) > 2:
        suite = loader.loadTestsFromNames(sys.argv[2:])
    else:
        suite = loader.discover(str(HERE), "test_*.py")
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
