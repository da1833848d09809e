"""``horovodrun``, which runs dabkerun."""

from dabke.launch import main as run_commandline

__all__ = ["run_commandline"]
