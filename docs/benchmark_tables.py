"""Write the tables of benchmarks from docs/benchmarks.json, which `make bench` writes."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# What the numbers of a row count, by their key.
UNITS = {
    "microseconds": "microseconds a sample",
    "ratios": "times",
    "errors": "share of the largest activity",
    "unconverged": "samples that did not converge",
}
BY_SIZE = ("ours", "ours, float32", "ours / floor", "plain loop / ours with responses")

Row = dict[str, Any]


def page(found: Row) -> Iterator[str]:
    """Return the page below its introduction, piece by piece, in Markdown."""
    machine, rows = found["machine"], found["rows"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    yield f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}; {versions}."
    yield from (against_others(row) for row in rows if "IncrementalPCA / ours" in ratios(row))
    yield "## By size\n\nPlain schedule, unless a name says otherwise.\n" + by_size(rows)
    yield from (
        f"## Fidelity\n\nThe {row['workload']}, the largest of any activity as a share of the "
        "largest of its sample.\n" + table(["", "error"], row["errors"].items())
        for row in rows
        if "errors" in row
    )
    yield "## Growth\n\nTime a sample grows as a power of the number of units m or features n.\n"
    growth = found["growth"].items()
    yield table(["", "power"], [(name, growing["exponent"]) for name, growing in growth])
    yield f"Peak memory beyond the state, n = m = 1024: {found['memory']:.2f} states.\n"
    yield "## All figures\n"
    yield from map(details, rows)


def against_others(row: Row) -> str:
    """Return how ours compares with each contestant of a workload."""
    to_ours = ratios(row)
    others = [
        (name, time, to_ours.get(f"{name} / ours") or 1 / to_ours[f"ours / {name}"])
        for name, time in row["microseconds"].items()
        if not name.startswith("ours") and "float32" not in name
    ]
    others.sort(key=lambda other: other[2])
    ours = ("**ours**", row["microseconds"]["ours"], 1.0)
    heads = ["", "microseconds a sample", "times ours"]
    return f"## Against others: {row['workload']}\n" + table(heads, [ours, *others])


def by_size(rows: Sequence[Row]) -> str:
    """Return ours against its floor and the plain loop, a line each workload."""
    lines = []
    for row in rows:
        numbers = row.get("microseconds", {}) | ratios(row)
        if all(name in numbers for name in BY_SIZE):
            lines.append((row["workload"], *(numbers[name] for name in BY_SIZE)))
    heads = ["", "microseconds, float64", "float32", "times the floor", "plain loop / ours"]
    return table(heads, lines)


def ratios(row: Row) -> dict[str, float]:
    """Return the ratios of a workload, by the names of both contestants."""
    return dict(row.get("ratios", {}))


def details(row: Row) -> str:
    """Return all figures of a workload, folded up."""
    tables = [table(["", unit], row[key].items()) for key, unit in UNITS.items() if key in row]
    return f":::{{dropdown}} {row['workload']}\n" + "\n".join(tables) + ":::\n"


def table(heads: Sequence[str], lines: Any) -> str:
    """Return a table of names and numbers."""
    text = [" | ".join(heads), "|".join(["---", *["---:"] * (len(heads) - 1)])]
    for name, *numbers in lines:
        text.append(" | ".join([name.replace("|", "\\|"), *map(number, numbers)]))
    return "\n" + "".join(f"| {line} |\n" for line in text)


def number(value: float) -> str:
    """Return three figures of a number, without an exponent if it is above a thousandth."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(app: Sphinx) -> None:
    """Write the tables where the page includes them."""
    source = Path(app.srcdir)
    target = source / "generated" / "benchmarks.txt"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n\n".join(page(json.loads((source / "benchmarks.json").read_text()))))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the tables before pages are read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
