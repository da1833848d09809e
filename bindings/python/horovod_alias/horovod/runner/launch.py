"""``horovodrun``, which is dabkerun here."""

from dabke.launch import main as run_commandline

__all__ = ["run_commandline"]
