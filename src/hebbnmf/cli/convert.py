"""The command `convert`: rows from one format to another."""

import click

from hebbnmf.cli.inputs import PATH, Inputs, input_options, progress, report_bad_rows
from hebbnmf.cli.outputs import open_output, output_format


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf convert rows.csv rows.npy
  $ hebbnmf convert rows.csv two.jsonl --columns a,b
"""
)
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@input_options
def convert(source: str, target: str, inputs: Inputs) -> None:
    """Write rows in another format, which the suffix of OUT names.

    IN may be a file, a pattern or - for standard input; OUT a .csv, .tsv, .jsonl, .npy or
    .parquet file, or - for CSV on standard output. A .npy file of numbers trains fastest.
    """
    if target != "-":
        output_format(target)
    with inputs.open([source]) as stream, progress("convert") as bar:
        with open_output(target, stream.feature_names) as writer:
            for chunk in stream:
                writer.write(chunk)
                bar.update(len(chunk))
        report_bad_rows(stream)
