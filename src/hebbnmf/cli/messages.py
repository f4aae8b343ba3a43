"""What the commands say: names from files and paths must not act on the terminal."""

import click

__all__ = ["printable", "say"]


def say(text: str, *, err: bool = False) -> None:
    """Print text for people, on standard error if asked."""
    click.echo(printable(text), err=err)


def printable(text: str) -> str:
    """Return text with escape sequences and other characters that do not print spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
