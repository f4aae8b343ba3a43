"""Run every benchmark, print one table, and write it as JSON."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import click

from benchmarks import growth, inference, speed

PACKAGES = ("hebbnmf", "numpy", "scipy", "numba", "scikit-learn", "river")


def machine():
    model = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x]
    return {
        "cpu": model[0].split(":")[1].strip() if model else platform.processor(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


@click.command()
@click.option("--large", is_flag=True, help="Also n = m = 4096: some minutes, and 2 GB.")
@click.option("--out", default="out/benchmarks.json", show_default=True, help="Where to write.")
def main(large, out):
    """Benchmark learning and responding, one BLAS thread, all contestants in turn."""
    rows = [speed.main_case()]
    show(rows[0])
    for found in speed.other_cases():
        rows.append(found)
        show(found)
    cases = [speed.slow_convergence, speed.single_rows, inference.cores]
    for case in [*cases, speed.large_case] if large else cases:
        rows.append(case())
        show(rows[-1])
    exponents = growth.time_exponents()
    memory = growth.memory_beyond_the_state()
    for name, found in exponents.items():
        click.echo(
            f"time a sample grows as {name}^{found['exponent']:.2f}: {found['microseconds']}"
        )
    click.echo(f"peak memory beyond the state, n = m = 1024: {memory:.2f} states")
    result = {"machine": machine(), "rows": rows, "growth": exponents, "memory": memory}
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(result, indent=2))
    click.echo(f"wrote {out}")


def show(found):
    click.echo(f"\n{found['workload']}")
    for name, value in found["microseconds"].items():
        click.echo(f"  {name:32s} {value:12.2f} us a sample")
    for name, value in found["ratios"].items():
        click.echo(f"  {name:48s} {value:8.2f} times")
    for name in ("unconverged", "equal"):
        if name in found:
            click.echo(f"  {name}: {found[name]}")


main()
