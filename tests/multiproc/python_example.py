"""The Python example, for tests that start it on several hosts."""

import pathlib
import subprocess
import sys

COMMAND = [sys.executable, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch_digits.py")]


def trouble():
    """Why it cannot run here; empty: it can."""
    tried = subprocess.run([sys.executable, "-c", "import torch, dabke.torch"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"{sys.executable} has no Dabke with PyTorch: {tried.stderr.strip().splitlines()[-1]}"
