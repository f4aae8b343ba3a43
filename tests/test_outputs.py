"""Outputs: nothing that is read, held or not ours is replaced, whatever ends the writing."""

import errno
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from equality import assert_same_model
from hebbnmf import OnlineSNMF
from hebbnmf.cli import main
from hebbnmf.cli.messages import printable
from hebbnmf.datasets import make_three_gaussians
from hebbnmf.persistence import load, save
from hebbnmf.persistence.atomic import replacing
from hebbnmf.persistence.locks import locked

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and disks")


@pytest.fixture
def rows():
    return make_three_gaussians(random_state=0)[0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, rows):
    """Stand in a folder of small data, and of a model trained on them."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows)
    write_csv("rows.csv", rows)
    save(OnlineSNMF(3).partial_fit(rows), "model.npz")
    return tmp_path


def write_csv(path, rows):
    np.savetxt(path, rows, "%.17g", ",", header="a,b", comments="")


def run(*args, code=0, stdin=None):
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    assert result.exit_code == code, result.output
    return result


def start(*args, **options):
    command = [sys.executable, "-m", "hebbnmf.cli", *map(str, args)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


# Inputs -------------------------------------------------------------------------------------------

COMMANDS = {
    "fit": "fit rows.csv -o {}",
    "fit, several files": "fit rows.csv ro*.csv -o {}",
    "checkpoint": "fit rows.csv -o m.npz --checkpoint {}",
    "predict": "predict model.npz rows.csv -o {}",
    "transform": "transform model.npz rows.csv -o {}",
    "convert": "convert rows.csv {}",
    "plot": "plot model.npz --data rows.csv -o {}",
    "tune": "tune rows.csv --n-components 2 -o {}",
}


@pytest.mark.parametrize("name", ["rows.csv", "down/../rows.csv", "symbolic.csv", "hard.csv"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_is_an_input_not_even_by_force(command, name):
    Path("down").mkdir()
    Path("symbolic.csv").symlink_to("rows.csv")
    Path("hard.csv").hardlink_to("rows.csv")
    before = Path("rows.csv").read_bytes()
    result = run(*COMMANDS[command].format(name).split(), "--force", code=1)
    assert f"{name}: is read by the same command" in result.stderr
    assert Path("rows.csv").read_bytes() == before


def test_neither_the_model_nor_what_the_shell_opens_is_an_output():
    shutil.copy("model.npz", "model.csv")
    assert "is read" in run("predict", "model.csv", "rows.csv", "-o", "model.csv", code=1).stderr
    with Path("rows.csv").open() as stdin:
        process = start("fit", "-", "-o", "rows.csv", "--force", stdin=stdin)
    assert "rows.csv: is read" in process.communicate()[1]
    for command in (
        "predict model.npz rows.csv",
        "score model.npz rows.csv",
        "tune rows.csv",
        "fit rows.csv -o m.npz --json",
    ):
        with Path("rows.csv").open("a") as stdout:
            process = start(*command.split(), stdout=stdout)
            assert "standard output: is read" in process.communicate()[1]


def test_a_library_call_keeps_its_inputs_too():
    from hebbnmf.streams import open_stream
    from hebbnmf.training import train

    with pytest.raises(shutil.SameFileError, match=r"rows\.csv"):
        train(OnlineSNMF(3), open_stream("rows.csv"), checkpoint="rows.csv", force=True)


# Files of others ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", ["data", "archive", "words"])
def test_what_a_command_did_not_write_is_replaced_only_by_force(command, content, rows):
    targets = {"plot": "other.png", "tune": "other.png", "fit": "other.npz"}
    target = targets.get(command, "other.csv")
    if content == "data":
        write_csv(target, rows)
    elif content == "archive":
        with Path(target).open("wb") as file:
            np.savez(file, rows)
    else:
        Path(target).write_text("Dear reader\n")
    before = Path(target).read_bytes()
    args = COMMANDS[command].format(target).split()
    result = run(*args, code=1)
    assert result.stderr.startswith(f"Error: {target}: exists")
    assert "pass --force to replace it" in result.stderr
    assert Path(target).read_bytes() == before
    run(*args, "--force")
    assert Path(target).read_bytes() != before


@pytest.mark.parametrize("source", ["rows.csv", "rows.npy"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "npy", "parquet"])
@pytest.mark.parametrize("command", ["predict", "transform"])
def test_the_same_command_may_be_given_again(command, suffix, source):
    for _ in range(2):
        run(command, "model.npz", source, "-o", f"y.{suffix}")
    other = {"predict": "transform", "transform": "predict"}[command]
    assert "exists" in run(other, "model.npz", source, "-o", f"y.{suffix}", code=1).stderr


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("command", ["predict", "transform"])
def test_a_command_with_ids_and_places_may_be_given_again(command, has_names, suffix, rows):
    lines = [f"{name},{a},{b}" for name, (a, b) in zip("xyz", rows, strict=False)]
    Path("named.csv").write_text("\n".join(["name,a,b"] * has_names + lines) + "\nbad,1,\n")
    given = [command, "model.npz", "named.csv", "--missing", "skip", "-o", f"y.{suffix}"]
    for options in (["--ids", "0"], ["--ids", "0", "--row-numbers"]):
        Path(f"y.{suffix}").unlink(missing_ok=True)
        for _ in range(2):
            run(*given, *options)
        assert "exists" in run(*given, "--drop", "0", code=1).stderr


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_models_and_pictures_are_replaced_and_so_are_empty_files(suffix):
    Path("m.npz").touch()
    for _ in range(2):
        run("fit", "rows.csv", "-o", "m.npz")
        run("plot", "m.npz", "--data", "rows.csv", "-o", f"p.{suffix}")
    Path(f"p.{suffix}").write_bytes(Path(f"p.{suffix}").read_bytes().replace(b"Matplotlib", b"M."))
    plot = ["plot", "m.npz", "--data", "rows.csv", "-o", f"p.{suffix}"]
    assert "exists" in run(*plot, code=1).stderr


@pytest.mark.parametrize("command", ["fit", "predict", "transform", "convert", "plot", "tune"])
def test_force_is_one_option(command):
    (option,) = [p for p in main.commands[command].params if p.name == "force"]
    (same,) = [p for p in main.commands["fit"].params if p.name == "force"]
    assert option.help == same.help


# Devices, pipes, links ----------------------------------------------------------------------------


@needs_root
def test_a_device_stays_a_device(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for _ in range(2):
        run("fit", "rows.csv", "-o", "null")
        run("predict", "model.npz", "rows.csv", "-o", "null")
        run("plot", "model.npz", "--data", "rows.csv", "-o", "null")
        assert Path("null").is_char_device()
    os.mknod("full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    error = run("fit", "rows.csv", "-o", "full", code=1).stderr
    assert "full: was not written to its end: No space left" in error
    os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(7, 250))
    assert "disk: is a disk" in run("fit", "rows.csv", "-o", "disk", "--force", code=1).stderr


def test_a_pipe_is_written_to(rows):
    os.mkfifo("pipe")
    for args in (["fit", "rows.csv"], ["predict", "model.npz", "rows.csv"]):
        received = []
        reader = threading.Thread(target=lambda got=received: got.append(Path("pipe").read_bytes()))
        reader.start()
        run(*args, "-o", "pipe")
        reader.join()
        assert Path("pipe").is_fifo()
        Path(f"{args[0]}.out").write_bytes(received[0])
    assert load("fit.out").n_samples_seen_ == len(rows)
    labels = load("model.npz").predict(rows).tolist()
    assert Path("predict.out").read_text() == "".join(f"{x}\n" for x in ["label", *labels])


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_a_format_that_needs_a_file_is_refused_to_a_pipe(suffix):
    os.mkfifo(f"pipe.{suffix}")
    error = run("transform", "model.npz", "rows.csv", "-o", f"pipe.{suffix}", code=2).stderr
    assert "which takes only csv, tsv, jsonl" in error


def test_sockets_are_refused_and_a_checkpoint_is_a_file():
    with socket.socket(socket.AF_UNIX) as here:
        here.bind("socket")
        error = run("fit", "rows.csv", "-o", "socket", "--force", code=1).stderr
    assert "socket: is a socket" in error
    os.mkfifo("pipe")
    error = run("fit", "rows.csv", "-o", "m.npz", "--checkpoint", "pipe", code=1).stderr
    assert "pipe: is a pipe or a device, from which no training can be resumed" in error


def test_what_a_link_leads_to_is_replaced():
    Path("down").mkdir()
    Path("link.npz").symlink_to("down/m.npz")
    for _ in range(2):
        run("fit", "rows.csv", "-o", "link.npz")
        assert Path("link.npz").is_symlink()
        assert not Path("down/m.npz").is_symlink()


# Files as they were -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_keeps_its_mode_and_is_not_read_by_others_meanwhile(mode):
    Path("model.npz").chmod(mode)
    with replacing("model.npz") as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        file.write(b"new")
    assert stat.S_IMODE(Path("model.npz").stat().st_mode) == mode


def test_a_new_file_has_the_mode_of_any_new_file():
    Path("plain").touch()
    save(OnlineSNMF(1), "new.npz")
    assert Path("new.npz").stat().st_mode == Path("plain").stat().st_mode


@needs_root
def test_a_file_keeps_its_owner():
    os.chown("model.npz", 1234, 2345)
    save(OnlineSNMF(1), "model.npz")
    status = Path("model.npz").stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


WRITER = """
import sys, time
from hebbnmf.persistence.atomic import replacing
with replacing("model.npz") as file:
    print("open", flush=True)
    time.sleep(60)
"""


def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_of_a_living_one():
    def unfinished():
        return set(Path().glob(".model.npz.*.tmp"))

    with subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        (left,) = unfinished()
        with replacing("model.npz") as living:
            save(OnlineSNMF(1), "model.npz")
            assert unfinished() == {left, Path(Path(living.name).name)}
        child.kill()
    assert unfinished() == {left}
    save(OnlineSNMF(1), "model.npz")
    assert unfinished() == set()


# One training for a checkpoint --------------------------------------------------------------------

HOLDER = """
import time
from hebbnmf.persistence.locks import locked
with locked("c.npz"):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_training_on_a_checkpoint_is_refused_until_the_first_is_gone(folder):
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        args = ["fit", "rows.csv", "-o", "m.npz", "--checkpoint", "c.npz"]
        for force in ([], ["--force"]):
            error = run(*args, *force, code=1).stderr
            assert "c.npz: another training writes this checkpoint" in error
        child.kill()
    assert (folder / ".c.npz.lock").exists()  # and is in nobody's way
    run(*args)
    assert not (folder / ".c.npz.lock").exists()


def test_locks_exclude_each_other_while_they_come_and_go():
    inside, most = [], []

    def work():
        for _ in range(200):
            try:
                with locked("c.npz"):
                    inside.append(1)
                    time.sleep(1e-4)
                    most.append(len(inside))
                    inside.pop()
            except BlockingIOError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}


def test_an_earlier_checkpoint_is_not_replaced_by_a_new_training():
    args = ["fit", "rows.csv", "-o", "m.npz", "--checkpoint", "c.npz"]
    run(*args)
    before = Path("c.npz").read_bytes()
    error = run(*args, "--limit", 10, code=1).stderr
    assert "c.npz: exists: continue that training with --resume" in error
    assert "--force" in error
    assert Path("c.npz").read_bytes() == before
    run(*args, "--resume")
    run(*args, "--limit", 10, "--force")
    assert load("c.npz").n_samples_seen_ == 10


# Endings ------------------------------------------------------------------------------------------


def test_a_row_too_large_to_learn_from_is_a_bad_row(rows):
    rows = rows.copy()
    rows[200, 1] = 1e200
    for name in ("huge.csv", "huge.npy"):
        (write_csv if name.endswith("csv") else np.save)(name, rows)
        error = run("fit", name, "-o", "m.npz", code=1).stderr
        assert f"{name}, {'line 202' if name.endswith('csv') else 'row 200'}" in error
        assert "column" in error
        assert "1e+200 is too large to learn from" in error
        result = run("fit", name, "-o", "m.npz", "--on-bad-row", "skip", "--scale")
        assert "bad rows left out: 1" in result.stderr
        assert load_steps_and_model("m.npz").n_samples_seen_ == len(rows) - 1
        run("convert", name, "copy.npy", "--force")
        assert np.array_equal(np.load("copy.npy"), rows)


def load_steps_and_model(path):
    from hebbnmf.persistence import read

    return read(path).model


@pytest.mark.parametrize("bad", ["1.0,oops", "1.0,1e200"])
def test_watching_that_ends_with_an_error_saves_what_was_learned(rows, bad):
    with Path("rows.csv").open("a") as file:
        file.write(f"{bad}\n1.0,2.0\n")
    args = ["fit", "rows.csv", "-o", "m.npz", "--watch"]
    saved, *_, error = run(*args, code=1).stderr.splitlines()
    assert saved.endswith("300 samples seen")
    assert "rows.csv, line 302" in error
    assert error.endswith("300 rows are learned: m.npz is written.")
    assert load("m.npz").n_samples_seen_ == len(rows)


def test_what_preprocessing_makes_too_large_is_named(rows):
    from sklearn.preprocessing import FunctionTransformer

    from hebbnmf.streams import open_stream
    from hebbnmf.training import train

    step = FunctionTransformer(lambda X: X * 1e100).fit(rows)
    with pytest.raises(ValueError, match="above the limit") as failure:
        train(OnlineSNMF(3), open_stream("rows.csv"), preprocessing=[step])
    (note,) = failure.value.__notes__
    assert note == (
        "X are the 300 rows of rows.csv, after preprocessing, that follow the first 0 rows of this "
        "training."
    )


@needs_root
@pytest.mark.filterwarnings("default")
def test_a_full_disk_under_the_checkpoint_is_a_warning(folder):
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)]
    if subprocess.run(mount).returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        (disk / "fill").write_bytes(bytes(12_000))
        result = run("fit", "rows.csv", "-o", "m.npz", "--checkpoint", disk / "c.npz")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert "Warning: " in result.stderr
    assert "No space left on device; training goes on" in result.stderr
    assert load("m.npz").n_samples_seen_ == 300


@pytest.fixture
def wide():
    """Write wide.npy: a whole chunk to learn, and a bad row in the next one; return its rows."""
    wide = np.zeros((80, 8192))
    wide[np.arange(80), np.arange(80) % 3] = 1
    wide[75, 3] = np.inf
    np.save("wide.npy", wide)
    return wide


def test_what_a_failed_training_has_learned_is_kept_and_an_earlier_model_stays(wide):
    earlier = OnlineSNMF().partial_fit(wide[:72])
    for target in ("m.npz", "m.partial.npz", "m.partial2.npz"):
        result = run("fit", "wide.npy", "-o", "m.npz", code=1)
        assert "wide.npy, row 75 " in result.stderr
        as_it_was = "" if target == "m.npz" else ", and m.npz is as it was"
        assert result.stderr.endswith(
            f"72 rows are learned: {target} holds them{as_it_was}; "
            f"--continue {target} learns further rows.\n"
        )
        assert_same_model(load(target), earlier)
    before = Path("m.npz").read_bytes()
    np.save("wide.npy", wide[72:75])
    run("fit", "wide.npy", "-o", "more.npz", "--continue", "m.partial.npz")
    assert load("more.npz").n_samples_seen_ == 75
    np.save("wide.npy", wide[73:])
    message = run("fit", "wide.npy", "-o", "m.npz", "--continue", "m.npz", code=1).stderr
    assert "learned:" not in message  # nothing was
    assert Path("m.npz").read_bytes() == before
    assert len(list(Path().glob("m.*"))) == 3


@pytest.mark.usefixtures("wide")
def test_with_a_checkpoint_or_before_anything_is_learned_no_model_is_written():
    error = run("fit", "wide.npy", "-o", "m.npz", "--checkpoint", "c.npz", code=1).stderr
    resume = "run the same command with --resume to continue from c.npz"
    assert f"72 rows are learned: {resume}" in error
    assert not Path("m.npz").exists()
    with Path("rows.csv").open("a") as file:
        file.write("1.0,oops\n")
    assert "learned" not in run("fit", "rows.csv", "-o", "m.npz", code=1).stderr
    assert not Path("m.npz").exists()


def test_a_model_that_finds_no_room_is_written_elsewhere(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "elsewhere"))
    (folder / "elsewhere").mkdir()
    disk = folder / "disk"
    disk.mkdir()

    monkeypatch.setattr("hebbnmf.cli.summary.Watcher.on_progress", lambda *_: disk.rmdir())
    error = run("fit", "rows.csv", "-o", "disk/m.npz", code=1).stderr
    (path,) = (folder / "elsewhere").glob("hebbnmf-*/m.npz")
    assert "disk/m.npz: was not written" in error
    assert f"No such file or directory. 300 rows are learned: {path} holds them; --con" in error
    assert load(path).n_samples_seen_ == 300
    assert path.parent.stat().st_mode & 0o077 == 0


def test_what_can_be_kept_nowhere_does_not_hide_the_error(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    (folder / "disk").mkdir()
    monkeypatch.setattr("hebbnmf.cli.summary.Watcher.on_progress", lambda *_: Path("disk").rmdir())
    error = run("fit", "rows.csv", "-o", "disk/m.npz", code=1).stderr
    assert error.startswith("Error: disk/m.npz: was not written")
    assert error.endswith("300 rows are learned, and can be written nowhere.\n")


@pytest.mark.usefixtures("wide")
@pytest.mark.filterwarnings("default")
def test_a_checkpoint_of_another_training_does_not_count_as_what_was_learned(monkeypatch):
    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "c.npz")

    args = ["fit", "wide.npy", "-o", "m.npz", "--checkpoint", "c.npz"]
    run(*args, "--memory", 100, code=1)
    earlier = Path("c.npz").read_bytes()
    monkeypatch.setattr("hebbnmf.training.checkpoints.save", no_room)
    error = run(*args, "--force", code=1).stderr
    assert "c.npz: No space left on device" in error
    assert error.endswith(
        "72 rows are learned: m.npz holds them, c.npz does not; --continue m.npz learns further "
        "rows.\n"
    )
    assert load("m.npz").n_samples_seen_ == load("c.npz").n_samples_seen_ == 72
    assert Path("c.npz").read_bytes() == earlier


@pytest.mark.usefixtures("wide")
def test_no_pipe_gets_a_model_that_is_not_finished(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    os.mkfifo("pipe")  # which nobody reads
    error = run("fit", "wide.npy", "-o", "pipe", code=1).stderr
    (path,) = folder.glob("hebbnmf-*/model.npz")
    assert f"72 rows are learned: {path} holds them; --continue" in error
    assert load(path).n_samples_seen_ == 72
    assert not list(folder.glob("pipe?*"))


@needs_root
def test_what_a_device_does_not_take_is_kept(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    os.mknod("full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    error = run("fit", "rows.csv", "-o", "full", code=1).stderr
    (path,) = folder.glob("hebbnmf-*/model.npz")
    assert f"No space left on device. 300 rows are learned: {path} holds them" in error


# Terminals ----------------------------------------------------------------------------------------


def test_names_do_not_act_on_the_terminal(rows):
    escape = "\x1b]0;owned\x07\u202e"
    np.savetxt("e.csv", rows, "%.17g", ",", header=f"a{escape},b", comments="", encoding="utf-8")
    run("fit", "e.csv", "-o", "m.npz")
    Path(f"{escape}.csv").write_text("a\nx\n")
    os.mkfifo(f"{escape}.fifo")
    outputs = [
        run("info", "m.npz").stdout,
        run("fit", f"{escape}.csv", "-o", "m.npz", code=1).stderr,
        run("fit", f"{escape}.csv", "-o", f"{escape}.xyz", "--on-bad-row", "skip", code=1).stderr,
        run("predict", "m.npz", "rows.csv", code=1).stderr,
        run("convert", "rows.csv", f"{escape}.xyz", code=2).stderr,
        run("fit", f"{escape}.fifo", "-o", "m.npz", code=1).stderr,
        run("fit", "rows.csv", "-o", f"{escape}.npz").stderr,
    ]
    for output in outputs:
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert "\\x1b]0;owned\\x07" in output


@pytest.mark.parametrize("text", ["plain words", "two\nlines", "\u00e4\u4e2d"])
def test_words_are_printed_as_they_are(text):
    assert printable(text) == text


def test_bytes_that_are_no_text_are_printable():
    assert printable(os.fsdecode(b"\xff.csv")) == "\\udcff.csv"


# Interrupts ---------------------------------------------------------------------------------------


def test_a_killed_command_leaves_what_the_next_one_removes(folder, rows):
    np.save("many.npy", np.tile(rows, (2000, 1)))
    with start("convert", "many.npy", "many.csv") as process:
        while not list(folder.glob(".many.csv.*.tmp")):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert list(folder.glob(".many.csv.*.tmp"))
    run("convert", "rows.npy", "many.csv")
    assert not list(folder.glob(".many.csv.*"))


def test_a_file_too_large_for_the_disk_is_removed_from_it(folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        run("convert", "rows.csv", "new.npy", code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(folder.glob("*new.npy*"))
