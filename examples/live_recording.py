"""Send a simulated recording through the Lab Streaming Layer, and watch a network learn it.

Needs the extras live and lsl. Eight electrodes hear three rhythms, each strongest somewhere else;
units of the network come to stand for them, two for each: a response is never negative, so one unit
takes the crests of a wave and another the troughs.

    python examples/live_recording.py
"""

import threading
import time

import numpy as np
import pylsl

from hebbnmf import OnlineSNMF
from hebbnmf.live import LiveView
from hebbnmf.streams import open_stream

CHANNELS = ["Fp1", "Fp2", "C3", "C4", "P3", "P4", "O1", "O2"]
RATE = 250
SECONDS = 600


def send(outlet: pylsl.StreamOutlet) -> None:
    """Send bursts of alpha at the back, mu in the middle and beta in front, in the pace of life."""
    rng = np.random.default_rng(0)
    maps = np.array(
        [
            [0, 0, 0.1, 0.1, 0.6, 0.6, 1, 1],
            [0, 0, 1, 0.9, 0.2, 0.2, 0, 0],
            [1, 1, 0.2, 0.2, 0, 0, 0, 0],
        ]
    )
    t = np.arange(RATE * SECONDS) / RATE
    bursts = rng.laplace(size=(SECONDS, 3)).clip(0).repeat(RATE, axis=0)
    rhythms = np.sin(2 * np.pi * t[:, None] * [10.0, 12.0, 21.0]) * bursts
    samples = rhythms @ maps + 0.1 * rng.standard_normal((len(t), len(CHANNELS)))
    start = time.monotonic()
    for i, sample in enumerate(samples):
        time.sleep(max(0.0, start + i / RATE - time.monotonic()))
        outlet.push_sample(sample.tolist())


def main() -> None:
    """Start the instrument, and learn from what it sends until Ctrl-C."""
    info = pylsl.StreamInfo("simulated", "EEG", len(CHANNELS), RATE, "float32", "hebbnmf-example")
    info.set_channel_labels(CHANNELS)
    outlet = pylsl.StreamOutlet(info)
    threading.Thread(target=send, args=(outlet,), daemon=True).start()
    model = OnlineSNMF(6, memory=10 * RATE)
    with (
        open_stream("lsl:name=simulated", limit=RATE * SECONDS) as stream,
        LiveView(model, name="a simulated recording") as view,
    ):
        print(view.url)
        try:
            view.train(stream)
        except KeyboardInterrupt:
            print(f"{model.n_components_} units after {model.n_samples_seen_} samples")


if __name__ == "__main__":
    main()
