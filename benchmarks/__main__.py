"""Run every benchmark, print one table, and write it as JSON."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import click
from joblib import cpu_count
from threadpoolctl import threadpool_info

from benchmarks import accuracy, growth, inference, speed

PACKAGES = ("hebbnmf", "numpy", "scipy", "numba", "scikit-learn", "river")


def machine():
    model = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x]
    return {
        "cpu": model[0].split(":")[1].strip() if model else platform.processor(),
        "cores": cpu_count(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "blas": [
            {key: library.get(key) for key in ("internal_api", "architecture", "version")}
            | {"package": Path(library["filepath"]).parent.name}
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ],
    }


def cases(large):
    yield speed.main_case()
    yield speed.forgetting()
    yield from speed.other_cases()
    yield from speed.raw_cases()
    yield accuracy.error_of_responses()
    yield speed.single_rows()
    yield inference.cores()
    if large:
        yield speed.large_case()


@click.command()
@click.option("--large", is_flag=True, help="Also n = m = 4096: some minutes, and 3 GB.")
@click.option("--out", default="out/benchmarks.json", show_default=True, help="Where to write.")
def main(large, out):
    """Benchmark learning and responding, one BLAS thread, all contestants in turn."""
    found = {"machine": machine(), "rows": []}
    show_machine(found["machine"])
    for row in cases(large):
        found["rows"].append(row)
        show(row)
    exponents = growth.time_exponents()
    memory = growth.memory_beyond_the_state()
    for name, growing in exponents.items():
        times = ", ".join(f"{size} {value:.1f}" for size, value in growing["microseconds"].items())
        click.echo(f"time a sample grows as {name}^{growing['exponent']:.2f}: {times} us")
    click.echo(f"peak memory beyond the state, n = m = 1024: {memory:.2f} states")
    found |= {"growth": exponents, "memory": memory}
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(found, indent=2))
    click.echo(f"wrote {out}")


def show_machine(machine):
    click.echo(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    click.echo(", ".join(f"{name} {number}" for name, number in machine["packages"].items()))
    for blas in machine["blas"]:
        click.echo(
            "BLAS of {package}: {internal_api} {version}, kernel {architecture}".format(**blas)
        )


def show(row):
    click.echo(f"\n{row['workload']}")
    for name, value in row.get("microseconds", {}).items():
        click.echo(f"  {name:32s} {value:12.3f} us a sample")
    for name, value in row.get("ratios", {}).items():
        click.echo(f"  {name:54s} {value:8.2f} times")
    for name, value in row.get("errors", {}).items():
        click.echo(f"  {name:54s} {value:8.1e} of the largest activity")
    for name in ("unconverged", "equal"):
        if name in row:
            click.echo(f"  {name}: {row[name]}")


main()
