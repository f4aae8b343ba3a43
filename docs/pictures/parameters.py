"""Draw each parameter of the network and of the clusterer over its range, for parameters.md."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from hebbnmf import OnlineSNMF, make_online_clusterer
from hebbnmf.datasets import (
    extract_patches,
    load_natural_images,
    make_changing_clusters,
    make_sparse_sources,
)
from hebbnmf.plots import plot_filters
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener, image_filters


def five_clusters(n_samples=500, seed=0):
    """Sample five clusters of the plane, around the origin, in random order."""
    rng = np.random.default_rng(seed)
    angles, lengths = np.radians([10, 80, 150, 220, 300]), np.array([1.5, 1.0, 1.3, 0.9, 1.2])
    y = rng.integers(5, size=n_samples)
    centers = lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return centers[y] + 0.17 * rng.standard_normal((n_samples, 2)), y


def rows_of(n_columns, height=2.4, width=None, **options):
    """Make a row of panels."""
    size = (width or 2.1 * n_columns, height)
    return plt.subplots(1, n_columns, figsize=size, layout="constrained", **options)[1]


def show(ax, net, X, title):
    """Draw samples in the colours of their units, and the weights of these."""
    labels = net.predict(X)
    colors = np.where(labels < 0, 9, labels % 9)
    ax.scatter(*X.T, c=colors, cmap="Set1", vmin=0, vmax=9, s=5, linewidths=0)
    for w in net.components_:
        ax.plot([0, w[0]], [0, w[1]], color="k", linewidth=1.5)
    side = 1.15 * np.abs(X).max()
    ax.set(xticks=[], yticks=[], aspect="equal", xlim=(-side, side), ylim=(-side, side))
    ax.set_title(title, fontsize="medium")


def n_components():
    """Show one unit and up to more than are needed."""
    X, _ = five_clusters()
    for ax, m in zip(rows_of(5, sharex=True, sharey=True), (1, 2, 3, 5, 50), strict=True):
        net = OnlineSNMF(n_components=m).fit(X)
        show(ax, net, X, f"{m}: {net.n_components_} units")


def rank_penalty():
    """Show a unit for every sample, few, and the threshold without a scale."""
    X, _ = five_clusters()
    penalties = (0.0, 0.01, 0.3, 3.0, "auto")
    for ax, penalty in zip(rows_of(5, sharex=True, sharey=True), penalties, strict=True):
        net = OnlineSNMF(n_components=20, rank_penalty=penalty).fit(X)
        show(ax, net, X, f"{penalty}: {net.n_components_} units")


def memory():
    """Show how well clusters that turn are followed, by time."""
    X, y = make_changing_clusters(16_000, 5, 10, period=8000, random_state=2)
    windows = [slice(t, t + 400) for t in range(0, len(X), 400)]
    axes = rows_of(5, sharey=True)
    for ax, m in zip(axes, (None, 0.1, 1000, 200, 5), strict=True):
        labels = OnlineSNMF(n_components=5, memory=m).partial_fit(X).labels_
        rand = [adjusted_rand_score(y[w], labels[w]) for w in windows]
        ax.plot([w.stop for w in windows], rand)
        ax.set(title=f"{m}: mean {np.mean(rand):.2f}", ylim=(0, 1.05), xlabel="samples")
        ax.set_xticks([0, 8000, 16_000], ["0", "8,000", "16,000"])
    axes[0].set(ylabel="adjusted Rand index")


def recycle():
    """Show labels by time, as all clusters are replaced every 500 samples."""
    halves = [slice(t + 250, t + 500) for t in range(0, 2000, 500)]
    for ax, choice in zip(rows_of(2, width=9, sharey=True), (False, True), strict=True):
        rand = []
        for seed in range(10):
            X, y = make_changing_clusters(2000, change="replace", period=500, random_state=seed)
            labels = OnlineSNMF(5, memory=50, recycle=choice).partial_fit(X).labels_
            rand += [adjusted_rand_score(y[half], labels[half]) for half in halves]
            if seed == 0:
                ax.scatter(np.arange(len(y)), labels, c=y % 10, cmap="tab10", s=5, linewidths=0)
        for change in (500, 1000, 1500):
            ax.axvline(change, color="0.6", linestyle=":")
        ax.set(xlabel="samples", yticks=range(-1, 5), title=f"{choice}: ARI {np.mean(rand):.2f}")
    plt.gcf().axes[0].set(ylabel="label")


def similarity_offset():
    """Show the fields of twelve units on a ring, each as a share of its largest activity."""
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 4000)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    probes = np.linspace(0, 2 * np.pi, 361)
    axes = rows_of(4, height=2.2, subplot_kw={"projection": "polar"})
    for ax, offset in zip(axes, (0.0, 0.5, 0.8, 0.95), strict=True):
        net = OnlineSNMF(12, rank_penalty=0, similarity_offset=offset).fit(X)
        Y = net.transform(np.column_stack([np.cos(probes), np.sin(probes)]))
        ax.plot(probes, Y[:, Y.any(axis=0)] / Y.max(axis=0)[Y.any(axis=0)], linewidth=1)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{offset}", fontsize="medium")


def initial_activity():
    """Show the weights of the first unit by time."""
    X, _ = five_clusters(300)
    axes = rows_of(4, sharex=True, sharey=True)
    for ax, start in zip(axes, (None, 3.0, 30.0, 300.0), strict=True):
        net = OnlineSNMF(n_components=5, memory=None, initial_activity=start)
        course = [net.partial_fit(x[None]).components_[0].copy() for x in X]
        ax.plot(course)
        ax.set(title=f"{start}", xlabel="samples")
    axes[0].set(ylabel="weights of unit 0")


def activity_gain():
    """Show sparse directions (dashed) after 3,000 samples: a low gain forgets the first ones."""
    X = make_sparse_sources(3000, 2, random_state=5)
    axes = rows_of(4, sharex=True, sharey=True)
    for ax, gain in zip(axes, (1.0, 0.3, 0.1, 0.01), strict=True):
        net = OnlineSNMF(n_components=4, rank_penalty=4, memory=None, activity_gain=gain).fit(X)
        ax.scatter(*X[:600].T, s=4, color="0.75", linewidths=0)
        ax.axhline(0, color="C3", linestyle="--", linewidth=1)
        ax.axvline(0, color="C3", linestyle="--", linewidth=1)
        for w in net.components_:
            ax.plot([0, 2 * w[0]], [0, 2 * w[1]], color="k", linewidth=1.8)
        ax.set(title=f"{gain:g}", xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xticks=[], yticks=[])


def dynamics():
    """Show the activity of a unit by the length of a sample, 60 degrees from those learned."""
    lengths = np.linspace(0, 3, 61)[:, None]
    learned, probe = np.array([1.0, 0.0]), np.array([0.5, np.sqrt(0.75)])
    axes = rows_of(3, width=8, sharey=True)
    for ax, n_seen in zip(axes, (1, 10, 90), strict=True):
        for name, style in (("rectified", "-"), ("quartic", "--")):
            net = OnlineSNMF(1, dynamics=name, memory=None).fit(np.tile(learned, (n_seen, 1)))
            ax.plot(lengths, net.transform(lengths * probe), style, label=name)
        ax.set(title=f"after {n_seen}", xlabel="length of a sample")
    axes[0].set(ylabel="activity")
    axes[0].legend(frameon=False)


def tol_and_max_sweeps():
    """Show how far responses are from exact ones, by either bound."""
    X, _ = whitened_patches(1500)
    net = OnlineSNMF(64, rank_penalty=0, n_epochs=3).fit(X)

    def respond(**settings):
        net.learner_.configure(net.set_params(**settings).check_parameters())
        return net.learner_.respond(X).Y

    exact = respond(tol=1e-12)
    tolerances, bounds = 10.0 ** -np.arange(1, 9), np.array([1, 2, 3, 5, 10, 20, 50])
    axes = rows_of(2, width=8, sharey=True)
    for ax, name, values in ((axes[0], "tol", tolerances), (axes[1], "max_sweeps", bounds)):
        shares = []
        for value in values.tolist():
            Y = respond(**{"tol": 1e-6, "max_sweeps": 1000} | {name: value})
            error = np.abs(Y - exact).max(axis=1) / exact.max(axis=1)
            shares.append(np.quantile(error, [0.5, 0.99]))
        ax.loglog(values, shares, "o-")
        ax.set(xlabel=name)
    axes[0].plot(tolerances, tolerances, ":", color="0.5")
    axes[0].invert_xaxis()
    axes[0].set(ylabel="error, share of the largest activity")
    axes[0].legend(["median sample", "worst 1 %", "tol"], frameon=False)


def whitened_patches(n_patches):
    """Cut and whiten small patches of natural images."""
    patches = extract_patches(load_natural_images(), n_patches, 10, random_state=0)
    normalised = PatchNormalizer().fit_transform(patches.astype(np.float64))
    whitener = ZCAWhitener().fit(normalised)
    return whitener.transform(normalised), whitener


def n_epochs():
    """Show filters on 5,000 patches of natural images."""
    X, whitener = whitened_patches(5000)
    for ax, n in zip(rows_of(4, width=9), (1, 3, 10, 30), strict=True):
        net = OnlineSNMF(36, memory=0.05, n_epochs=n, shuffle=True, random_state=0).fit(X)
        plot_filters(image_filters(net.components_, whitener), ax=ax)
        ax.set_title(f"{n}", fontsize="medium")


def shuffle_and_random_state():
    """Show a file that is sorted by cluster, in its order and in three random ones."""
    X, y = five_clusters()
    X = X[np.argsort(y, kind="stable")]
    axes = rows_of(4, sharex=True, sharey=True)
    orders = [(False, None), *((True, seed) for seed in range(3))]
    for ax, (choice, seed) in zip(axes, orders, strict=True):
        net = OnlineSNMF(n_components=5, shuffle=choice, random_state=seed).fit(X)
        show(ax, net, X, "shuffle=False" if seed is None else f"True, seed {seed}")


def track_cost():
    """Show the cost of online responses as samples come."""
    X, _ = five_clusters(400)
    net = OnlineSNMF(n_components=5, track_cost=True)
    course = []
    for x in X:
        net.partial_fit(x[None])
        course.append([net.cost_, net.learner_.cost.silent_value])
    ax = rows_of(1, width=4.5)
    ax.loglog(course, label=["cost_", "cost of silence"])
    ax.set(xlabel="samples", ylabel="cost (9)", ylim=(1e-2, None))
    ax.legend(frameon=False)


# The online clusterer -----------------------------------------------------------------------------


def six_clusters(n_samples=900, seed=0):
    """Sample six clusters of the plane of which two pairs lie in one direction from the mean."""
    rng = np.random.default_rng(seed)
    centers = np.array([[1, 1], [3, 3], [-1, 1], [-3, 3], [-2, -2], [2, -2]])
    y = rng.integers(len(centers), size=n_samples)
    return centers[y] + 0.35 * rng.standard_normal((n_samples, 2)), y


def show_regions(ax, model, X, y, name):
    """Draw samples, and the region of each label in its colour."""
    side = np.linspace(-1.1, 1.1, 150) * np.abs(X).max()
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    labels = model.predict(grid).reshape(len(side), -1)
    colors = np.where(labels < 0, 9, labels % 9)
    ax.pcolormesh(side, side, colors, cmap="Set1", vmin=0, vmax=9, alpha=0.35, rasterized=True)
    ax.scatter(*X.T, c="k", s=3, linewidths=0)
    ax.set(xticks=[], yticks=[], aspect="equal")
    score = adjusted_rand_score(y, model.predict(X))
    ax.set_title(f"{name}: ARI {score:.2f}", fontsize="medium")


def show_clusterers(name, values, **others):
    """Draw the regions of clusterers that differ in one parameter."""
    X, y = six_clusters()
    for ax, value in zip(rows_of(len(values), sharex=True, sharey=True), values, strict=True):
        model = make_online_clusterer(
            **{"n_clusters": 10, "random_state": 0} | others | {name: value}
        )
        show_regions(ax, model.fit(X), X, y, value)


def n_clusters():
    """Show fewer clusters than there are, and more."""
    show_clusterers("n_clusters", (2, 4, 6, 10, 50))


def kernel():
    """Show clusters by distance, and by direction."""
    show_clusterers("kernel", ("rbf", "linear"))


def n_landmarks():
    """Show a kernel by few samples and by many."""
    show_clusterers("n_landmarks", (3, 10, 30, 300))


def memory_of_the_clusterer():
    """Show clusters that turn, as they are when the stream ends, and their labels."""
    X, y = make_changing_clusters(6000, 5, 2, period=8000, radius=8, random_state=2)
    for ax, m in zip(rows_of(4, sharex=True, sharey=True), (None, 0.1, 1000, 200), strict=True):
        model = make_online_clusterer(10, memory=m, random_state=0)
        for start in range(0, len(X), 500):
            model.partial_fit(X[start : start + 500])
        show_regions(ax, model, X[-300:], y[-300:], m)


def random_state_of_the_clusterer():
    """Show four choices of six landmarks."""
    show_clusterers("random_state", range(4), n_landmarks=6)
