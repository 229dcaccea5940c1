# SPDX-License-Identifier: Apache-2.0
"""`peal-doctor`, also as `python -m peal.doctor`: what this machine lacks, each line with its remedy."""
from peal.run import become


def main():
    """Becomes peal-doctor."""
    become("peal-doctor")


if __name__ == "__main__":
    main()
