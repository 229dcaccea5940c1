# SPDX-License-Identifier: Apache-2.0
"""`peal-run`, also as `python -m peal.run`: starts the PEs of a job, by the program in this package."""
import os
import sys

from peal._library import NATIVE


def main():
    """Becomes peal-run, with the arguments of this process."""
    program = str(NATIVE / "bin/peal-run")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
