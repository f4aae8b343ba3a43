"""The command `convert`: rows from one format to another."""

from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import PATH, progress, read_options, report_bad_rows
from hebbnmf.cli.outputs import FORCE, check_rows_output, open_output

if TYPE_CHECKING:
    from hebbnmf.streams import ReadOptions


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf convert rows.csv rows.npy
  $ hebbnmf convert rows.csv two.jsonl --columns a,b
"""
)
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@FORCE
@read_options
def convert(source: str, target: str, force: bool, reading: "ReadOptions") -> None:
    """Write rows in another format, which the suffix of OUT names.

    IN may be a file, a pattern or - for standard input; OUT a .csv, .tsv, .jsonl, .npy or
    .parquet file, or - for CSV on standard output. A .npy file of numbers trains fastest. An OUT
    that exists is replaced only with --force.
    """
    from hebbnmf.streams import open_stream

    # Rows converted before cannot be told from other data.
    check_rows_output(target, [source], force=force, is_own=lambda _: False)
    with open_stream([source], options=reading, learnable=False) as stream:
        with (
            progress("convert", stream.total) as bar,
            open_output(target, stream.feature_names) as writer,
        ):
            for chunk in stream:
                writer.write(chunk)
                bar.update(len(chunk))
        report_bad_rows(stream)
