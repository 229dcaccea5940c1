#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program of peal-cc --sim, all PEs of it in one simulation, under one seed after another until one fails.

  peal-cc --sim program.cu -o program
  peal-sim -n 2 --seeds 1000 ./program ARGUMENTS
  peal-sim -n 2 --seed 17 ./program ARGUMENTS            # one seed again, with its story

Exit status: 0 when no seed failed, 1 when one did, 2 for wrong options.
"""
import argparse
import os
import pathlib
import shutil
import sys

MARK = b"__wrap_main"  # of every program that peal-cc --sim linked


def whole(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: a number that is not negative is wanted")
    return value


def arguments():
    parser = argparse.ArgumentParser(prog="peal-sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=whole, default=2, metavar="PES", help="PEs, 1 to 64 (default: 2)")
    parser.add_argument("--seeds", type=whole, default=200, help="how many (default: 200)")
    parser.add_argument("--seed", type=whole, help="this one alone, with the story of its schedule")
    parser.add_argument("--shrink", type=whole, default=400, metavar="RUNS",
                        help="runs to find the shortest schedule that fails (default: 400)")
    parser.add_argument("--slices", type=whole, default=4_000_000, help="after which a run has failed (default: 4000000)")
    parser.add_argument("--steps", type=whole, default=60, help="of a story, from its end (default: 60)")
    parser.add_argument("program", help="made by peal-cc --sim")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    options = arguments()
    path = shutil.which(options.program)
    if path is None:
        sys.exit(f"peal-sim: there is no program {options.program}")
    if MARK not in pathlib.Path(path).read_bytes():
        print(f"peal-sim: {options.program} was not made by peal-cc --sim: compile it so", file=sys.stderr)
        sys.exit(2)
    words = ["-n", options.n, "--shrink", options.shrink, "--slices", options.slices, "--steps", options.steps]
    words += ["--seeds", options.seeds] if options.seed is None else ["--seed", options.seed]
    os.environ["PEAL_SIM"] = " ".join(map(str, words))
    os.execv(path, [options.program, *options.arguments])


if __name__ == "__main__":
    main()
