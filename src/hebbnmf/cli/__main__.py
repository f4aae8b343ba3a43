"""The command, as `python -m hebbnmf.cli`."""

from hebbnmf.cli import main

main(prog_name="hebbnmf")
