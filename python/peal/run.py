# SPDX-License-Identifier: Apache-2.0
"""`peal-run`, also as `python -m peal.run`: starts the PEs of a job, by the program in this package."""
import os
import sys

from peal._library import NATIVE


def become(name):
    """The program of that name takes this process, with its arguments."""
    program = str(NATIVE / "bin" / name)
    os.execv(program, [program, *sys.argv[1:]])


def main():
    """Becomes peal-run."""
    become("peal-run")


if __name__ == "__main__":
    main()
