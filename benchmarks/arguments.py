"""Types of command line arguments that several benchmarks have."""

import argparse


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' must be at least 1")
    return number
