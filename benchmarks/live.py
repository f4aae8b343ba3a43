"""What the live page costs the learner, no page open and one, and how long Ctrl-C takes.

Run with ``python -m benchmarks.live``; it prints the seconds of training under a view over those of
training alone, by the clock on the wall and by the processor time of the whole process. All three
in turn, on natural patches and on points in the plane. The page is a client in a process of its own
that asks for the next frame as soon as it has one. Then the seconds from Ctrl-C to the end of
``hebbnmf live demo``, with a page open and a checkpoint to write.
"""

import multiprocessing
import signal
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path

import click
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.timing import ratio
from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_three_gaussians
from hebbnmf.engine._blas import ONE_BLAS_THREAD
from hebbnmf.live import LiveView
from hebbnmf.live.demo import SHAPE, natural_patches
from hebbnmf.streams import open_stream
from hebbnmf.training import train


def watch(urls, frames):
    """Be a page: watch one training after the other, and put how many frames came of each."""
    while (url := urls.get()) is not None:
        n_frames = 0
        try:
            with opened_page(url) as socket:
                socket.recv()
                frames.put(0)
                while True:
                    socket.send('{"ready": true}')
                    while isinstance(socket.recv(), str):
                        pass
                    n_frames += 1
        except ConnectionClosed:
            frames.put(n_frames)


def time_learning(model, opened, steps, shape, rounds, urls, frames):
    """Return seconds of each round: on the wall and of the processor, and frames a second."""
    wall, processor = ({name: [] for name in ("alone", "no page", "a page")} for _ in range(2))
    rates = []
    for _ in range(rounds):
        for name in wall:
            learner = deepcopy(model)
            with opened() as stream, LiveView(learner, shape=shape, port=0) as view:
                if name == "a page":
                    urls.put(view.url)
                    frames.get()
                start = time.perf_counter(), time.process_time()
                with ONE_BLAS_THREAD:
                    if name == "alone":
                        train(learner, stream, preprocessing=steps)
                    else:
                        view.train(stream, preprocessing=steps)
                wall[name].append(time.perf_counter() - start[0])
                processor[name].append(time.process_time() - start[1])
            if name == "a page":
                rates.append(frames.get() / wall[name][-1])
    as_arrays = [{name: np.array(v) for name, v in each.items()} for each in (wall, processor)]
    return *as_arrays, float(np.median(rates))


def time_interrupt(folder):
    """Return the seconds from Ctrl-C until the process of the demo has ended."""
    # A child would go on ignoring what a shell in the background ignores.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-m", "hebbnmf.cli", "live", "demo", "--no-browser", "--port", "0"]
    checkpoint = Path(folder, "part.npz")
    with (
        subprocess.Popen(
            [*command, "--checkpoint", checkpoint, "--force"], stderr=subprocess.PIPE, text=True
        ) as process,
        opened_page(process.stderr.readline().split()[-1]) as socket,
    ):
        for _ in range(20):
            socket.send('{"ready": true}')
            while isinstance(socket.recv(), str):
                pass
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.wait()
        seconds = time.perf_counter() - start
        assert checkpoint.exists()
    return seconds


def opened_page(url):
    """Open the socket of a page."""
    origin = "/".join(url.split("/")[:3])
    address = url.replace("http", "ws") + "socket"
    return connect(address, origin=origin, max_size=None, compression=None)


def workloads(n_samples):
    patches, steps = natural_patches()

    def opened_patches():
        return open_stream(patches, chunk_bytes=1, dtype="float32", limit=n_samples, epochs=100)

    def opened_points():
        return open_stream(points, chunk_bytes=1, limit=n_samples, epochs=100)

    points, _ = make_three_gaussians(60_000, random_state=0)
    yield "patches, 144 units", OnlineSNMF(144), opened_patches, steps, SHAPE
    yield "points in the plane, 3 units", OnlineSNMF(3), opened_points, [], None


@click.command()
@click.option("--rounds", default=9, show_default=True)
@click.option("--samples", default=288_000, show_default=True)
def main(rounds, samples):
    """Time training alone, under a view without a page, and under a view with one."""
    context = multiprocessing.get_context("spawn")
    urls, frames = context.Queue(), context.Queue()
    page = context.Process(target=watch, args=(urls, frames))
    page.start()
    for title, model, opened, steps, shape in workloads(samples):
        with opened() as stream:  # grown, and all kernels compiled
            train(model, stream, preprocessing=steps)
        found = time_learning(model, opened, steps, shape, rounds, urls, frames)
        wall, processor, rate = found
        click.echo(f"{title}: {np.median(wall['alone']):.2f} s alone, {rate:.1f} frames a second")
        for name in ("no page", "a page"):
            click.echo(
                f"  {name:8s} {ratio(wall, name, 'alone'):.3f} times on the wall, "
                f"{ratio(processor, name, 'alone'):.3f} of the processor"
            )
    urls.put(None)
    page.join()
    with tempfile.TemporaryDirectory() as folder:
        seconds = [time_interrupt(folder) for _ in range(rounds)]
    click.echo(f"Ctrl-C: {np.median(seconds):.2f} s, at most {max(seconds):.2f}")


if __name__ == "__main__":
    main()
