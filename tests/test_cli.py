"""The command: what it prints, what it writes, how it fails."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from hebbnmf.cli import main
from hebbnmf.experiments import FIGURES, fig3
from hebbnmf.experiments.report import Report


@pytest.fixture
def tiny(monkeypatch):
    """Put a figure of no cost in the place of Fig. 3, and record how it was called."""
    calls = []

    def run(*, quick):
        calls.append(quick)
        return Report("fig3", {"seeds": [0]}, {"value": 1.5}, ("value: 1.5",), Figure((1, 1)))

    monkeypatch.setattr(fig3, "run", run)
    return calls


def test_prints_the_numbers_and_the_paths_it_wrote(tmp_path, tiny):
    result = CliRunner().invoke(main, ["reproduce", "fig3", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert tiny == [True]
    paths = [tmp_path / f"fig3{suffix}" for suffix in (".png", ".svg", ".json")]
    assert result.stdout.splitlines() == ["value: 1.5", *(f"wrote {path}" for path in paths)]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert json.loads(paths[2].read_text())["results"] == {"value": 1.5}


def test_writes_to_out_in_full_by_default(tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["reproduce", "fig3"]).exit_code == 0
    assert tiny == [False]
    assert (tmp_path / "out" / "fig3.json").exists()


@pytest.mark.parametrize("error", [ValueError("no good\nat all"), OSError("disk full")])
def test_an_error_is_one_line_without_traceback(tmp_path, monkeypatch, error):
    def run(**_):
        raise error

    monkeypatch.setattr(fig3, "run", run)
    result = CliRunner().invoke(main, ["reproduce", "fig3", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.splitlines() == ["Error: " + " ".join(str(error).split())]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_reported_before_computing(tmp_path, tiny):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "below"
    result = CliRunner().invoke(main, ["reproduce", "fig3", "--out", str(out)])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert tiny == []


def test_an_interrupt_leaves_nothing_half_written(tmp_path, monkeypatch):
    class Interrupted(Figure):
        def savefig(self, file, **_):
            file.write(b"half")
            raise KeyboardInterrupt

    report = Report("fig3", {}, {}, (), Interrupted((1, 1)))
    monkeypatch.setattr(fig3, "run", lambda **_: report)
    (tmp_path / "fig3.png").write_bytes(b"earlier")
    result = CliRunner().invoke(main, ["reproduce", "fig3", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["fig3.png"]
    assert (tmp_path / "fig3.png").read_bytes() == b"earlier"


def test_demo_shows_three_figures(tmp_path, monkeypatch):
    names = ["fig3", "fig4", "fig5"]
    for name in names:
        report = Report(name, {}, {}, (f"numbers of {name}",), Figure((1, 1)))
        monkeypatch.setattr(f"hebbnmf.experiments.{name}.run", lambda report=report, **_: report)
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{name}.png" for name in names}
    assert all(f"numbers of {name}" in result.stdout for name in names)


def test_pictures_are_refused_where_none_are_shown(tmp_path):
    result = CliRunner().invoke(main, ["reproduce", "fig3", "--images", str(tmp_path)])
    assert result.exit_code == 2
    assert "--images is for fig4" in result.stderr


def test_an_unknown_figure_names_the_known_ones():
    result = CliRunner().invoke(main, ["reproduce", "fig9"])
    assert result.exit_code == 2
    assert all(name in result.stderr for name in FIGURES)


def test_help_does_not_wait_for_heavy_imports():
    assert set(main.commands) > {"fit", "reproduce"}
    heavy = ["sklearn", "numba", "matplotlib", "scipy", "numpy"]
    code = (
        "import sys\n"
        "from hebbnmf.cli import main\n"
        "for name in main.commands: main([name, '--help'], standalone_mode=False)\n"
        "try: main(['reproduce', '--help'])\n"
        f"finally: sys.exit(3 * any(name in sys.modules for name in {heavy}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, title in FIGURES.items():
        assert f"{name}  {title}" in done.stdout


def test_runs_as_a_program_of_its_own(tmp_path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "hebbnmf.cli", "reproduce", "fig3", "--out"]
    done = subprocess.run(
        [*command, str(tmp_path / "file")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: Invalid value for '--out'")
