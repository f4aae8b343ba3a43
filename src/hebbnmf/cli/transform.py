"""The commands `transform` and `predict`: what a trained network answers."""

from typing import Any

import click

from hebbnmf.cli.inputs import (
    PATH,
    Inputs,
    data_argument,
    input_options,
    progress,
    read_answering,
    report_bad_rows,
)
from hebbnmf.cli.outputs import check_target, open_output, output_format

_MODEL = click.argument("model", type=PATH)
_OUTPUT = click.option(
    "-o",
    "--output",
    type=PATH,
    default="-",
    help="File to write, .csv, .tsv, .jsonl, .npy or .parquet; CSV on standard output by default.",
)


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf transform model.npz rows.csv -o answers.npy
  $ hebbnmf transform model.npz rows.csv | head -1
"""
)
@_MODEL
@data_argument
@_OUTPUT
@input_options
def transform(model: str, data: tuple[str, ...], output: str, inputs: Inputs) -> None:
    """Write the activities of all units for each row.

    DATA are files, patterns, or - for standard input. Text has a line of names if DATA have one.
    """
    _answer("transform", model, data, output, inputs)


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf predict model.npz rows.csv -o labels.csv
  $ cat rows.csv | hebbnmf predict model.npz - | sort | uniq -c
"""
)
@_MODEL
@data_argument
@_OUTPUT
@input_options
def predict(model: str, data: tuple[str, ...], output: str, inputs: Inputs) -> None:
    """Write the unit that answers each row most strongly.

    Rows that no unit answers get -1. DATA are files, patterns, or - for standard input. Text has a
    line of names if DATA have one.
    """
    _answer("predict", model, data, output, inputs)


def _answer(method: str, path: str, data: tuple[str, ...], output: str, inputs: Inputs) -> None:
    if output != "-":
        output_format(output)
        check_target(output)
    model, steps, names = read_answering(path)
    if method == "transform" and not model.n_components_:
        raise ValueError(f"{path} has no unit, and so no answer; fit with a lower --rank-penalty.")
    units = [f"unit{i}" for i in range(model.n_components_)]
    columns = units if method == "transform" else ["label"]
    answer: Any = getattr(model, method)
    with inputs.open(data) as stream, progress(method) as bar:
        stream.require(model.n_features_in_, names)
        named = stream.feature_names is not None or output.endswith(".parquet")
        with open_output(output, columns if named else None) as writer:
            for chunk in stream:
                for step in steps:
                    chunk = step.transform(chunk)
                writer.write(answer(chunk))
                bar.update(len(chunk))
        report_bad_rows(stream)
