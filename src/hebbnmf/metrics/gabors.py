"""How well a network did: clusters found, receptive fields, sparsity of activity, directions."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_array, check_consistent_length, column_or_1d

FloatArray = NDArray[np.float64]
TINY = np.finfo(np.float64).tiny

# Of max(g, 0), with g normal: moments 1/sqrt(2 pi), 1/2, 2/sqrt(2 pi), 3/2 about zero.
RECTIFIED_GAUSSIAN_KURTOSIS = 2.4077

# A Gabor function's envelope spans three pixels at half height: 2.355 * 1.25. With a deviation of
# 1.1 half the variance of a single bright pixel would pass for one.
MIN_SIGMA = 1.25
START_SIGMAS = (0.1, 0.15, 0.25)  # shares of the patch's side
N_STEPS = 60
FILTERS_AT_ONCE = 32  # few enough for the cache


class ClusterAgreement(NamedTuple):
    """What `cluster_agreement` measures."""

    accuracy: float
    """Share of samples whose cluster is matched with their class; silent samples are misses."""
    silent: float
    """Share of samples in no cluster."""
    n_clusters: int
    """Number of clusters that hold a sample."""


def cluster_agreement(y_true: ArrayLike, labels: ArrayLike) -> ClusterAgreement:
    """Compare clusters with known classes, under the best one-to-one matching.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The class of each sample.
    labels : array-like of shape (n_samples,)
        The cluster of each sample, or -1 where no unit answered.

    Returns
    -------
    agreement : ClusterAgreement
        The fields `accuracy`, `silent` and `n_clusters`.

    Examples
    --------
    >>> from hebbnmf.metrics import cluster_agreement
    >>> cluster_agreement([0, 0, 1, 1], [7, 7, 3, -1])
    ClusterAgreement(accuracy=0.75, silent=0.25, n_clusters=2)
    """
    classes, clusters = np.asarray(column_or_1d(y_true)), np.asarray(column_or_1d(labels))
    check_consistent_length(classes, clusters)
    if clusters.size == 0:
        raise ValueError("y_true and labels are empty: give at least one sample to compare.")
    silent = clusters == -1
    if silent.all():
        return ClusterAgreement(0.0, 1.0, 0)
    counts = contingency_matrix(classes[~silent], clusters[~silent])
    matched = counts[linear_sum_assignment(counts, maximize=True)].sum()
    return ClusterAgreement(
        accuracy=float(matched / clusters.size),
        silent=float(silent.mean()),
        n_clusters=counts.shape[1],
    )


class ActivitySparsity(NamedTuple):
    """What `activity_sparsity` measures."""

    probability_zero: float
    """Share of answers that are exactly zero: the red arrow of Fig. 4B."""
    kurtosis: float
    """Excess kurtosis of the answers of all units to all samples, pooled."""
    lifetime: FloatArray
    """For each unit, how unevenly its answers spread over samples, in 0..1."""
    population: FloatArray
    """For each sample, how unevenly the answers spread over units, in 0..1."""


def activity_sparsity(Y: ArrayLike) -> ActivitySparsity:
    """Measure how sparse activity is (section IV.B, Fig. 4B).

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_units)
        The answers, non-negative.

    Returns
    -------
    sparsity : ActivitySparsity
        The fields `probability_zero`, `kurtosis`, `lifetime` and `population`.

    Notes
    -----
    `lifetime` and `population` are the sparseness of Treves & Rolls (1991) in the form of Vinje &
    Gallant (2000), ``(1 - a) / (1 - 1/N)`` with ``a = mean(r)^2 / mean(r^2)`` over the N samples
    or units: 0 where all N answers are equal, 1 where a single one is not zero. It is set to 0
    where all are zero, so that dead units cannot raise an average, and where N is 1. The kurtosis
    of constant activity is 0.

    Examples
    --------
    >>> from hebbnmf.metrics import activity_sparsity
    >>> sparsity = activity_sparsity([[0, 1], [0, 1], [3, 1]])
    >>> sparsity.lifetime.round(6), round(sparsity.probability_zero, 3)
    (array([1., 0.]), 0.333)
    """
    activity = check_array(Y, dtype=[np.float64, np.float32])
    if activity.min() < 0:
        raise ValueError(
            f"Y has the entry {activity.min():g}, but activity must be >= 0: rectify it first."
        )
    # Scale changes none of the measures; divided out, it cannot take fourth powers out of range.
    scaled = activity / (activity.max() or 1)
    squares = np.square(scaled - scaled.mean(dtype=np.float64))
    variance = squares.mean()
    return ActivitySparsity(
        probability_zero=float(np.mean(activity == 0)),
        kurtosis=float(np.square(squares).mean() / variance**2 - 3) if variance > 0 else 0.0,
        lifetime=_sparseness(activity, axis=0),
        population=_sparseness(activity, axis=1),
    )


def _sparseness(activity: NDArray[np.floating], axis: int) -> FloatArray:
    # Each unit or sample on its own scale, so that the weakest do not underflow into silence.
    peak = activity.max(axis=axis, keepdims=True)
    r = activity / np.where(peak > 0, peak, 1)
    mean, power = (
        r.mean(axis=axis, dtype=np.float64),
        np.square(r).mean(axis=axis, dtype=np.float64),
    )
    a = np.divide(mean**2, power, out=np.ones_like(mean), where=power > 0)
    return np.asarray(np.clip((1 - a) / (1 - 1 / max(activity.shape[axis], 2)), 0, 1))


@dataclass(frozen=True)
class BiologicalReport:
    """What `biological_report` finds; printed, it is a list of the checks."""

    n_units: int
    """Number of recruited units."""
    least_lateral_weight: float
    """The least weight from one unit to another; 0 where there is only one."""
    obeys_dales_law: bool
    """Whether no lateral weight is negative: every unit inhibits, and only inhibits."""
    least_answer: float
    """The least answer to any sample."""
    is_rectified: bool
    """Whether no answer is negative."""
    learning_rates: tuple[float, float]
    """The least and greatest learning rate of a unit, one over its cumulative activity."""
    learning_rates_fall: bool
    """Whether learning from the samples raised no unit's rate, and lowered that of some."""
    probability_zero: float
    """Share of answers that are exactly zero."""
    kurtosis: float
    """Excess kurtosis of all answers, pooled."""
    lifetime_sparseness: float
    """How unevenly a unit's answers spread over samples, in 0..1, averaged over units."""
    population_sparseness: float
    """How unevenly the answers to a sample spread over units, in 0..1, averaged over samples."""
    fires_sparsely: bool
    """Whether answers are zero more often, and have heavier tails, than a rectified Gaussian."""

    def __str__(self) -> str:
        slow, fast = self.learning_rates
        sparsity = (
            f"P(y = 0) = {self.probability_zero:.3f}, kurtosis {self.kurtosis:.3g}, sparseness "
            f"{self.lifetime_sparseness:.2f} (lifetime), {self.population_sparseness:.2f} "
            "(population)"
        )
        checks = (
            (
                self.obeys_dales_law,
                f"Dale's law: lateral weights >= {self.least_lateral_weight:.3g}",
            ),
            (self.is_rectified, f"rectified activity: answers >= {self.least_answer:.3g}"),
            (self.learning_rates_fall, f"learning rates fall: now {slow:.3g} to {fast:.3g}"),
            (self.fires_sparsely, f"sparse firing: {sparsity}"),
        )
        lines = [f"  {'yes' if holds else 'NO '}  {text}" for holds, text in checks]
        return "\n".join([f"{self.n_units} units", *lines])


def biological_report(net: Any, X: ArrayLike) -> BiologicalReport:
    """Check a trained network against the biology of section IV.B.

    Parameters
    ----------
    net : OnlineSNMF
        A trained network with at least one unit; it is left as it is. Anything will do that has
        `transform`, `partial_fit`, `lateral_weights_` and `cumulative_activity_`, and can be
        copied.
    X : array-like of shape (n_samples, n_features)
        Samples to answer. Some thousands are enough: all answers to them, ``n_samples`` times
        ``n_components_`` numbers, are held at once, a few times over.

    Returns
    -------
    report : BiologicalReport
        The figures, and whether each property holds.

    Notes
    -----
    Section IV.B counts lateral weights as -M: there they are never positive. That learning rates
    fall is seen by letting a copy of the network learn from X. Firing counts as sparse beyond
    what rectification alone does to Gaussian input: a probability of zero above 1/2, and an
    excess kurtosis above 2.41.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_sparse_sources
    >>> from hebbnmf.metrics import biological_report
    >>> X = make_sparse_sources(2000, 8, random_state=0)
    >>> net = OnlineSNMF(n_components=16, rank_penalty=64.0, activity_gain=0.1).fit(X)
    >>> report = biological_report(net, X)
    >>> report.obeys_dales_law, report.is_rectified, report.learning_rates_fall
    (True, True, True)
    """
    M, before = np.asarray(net.lateral_weights_), np.asarray(net.cumulative_activity_)
    if before.size == 0:
        raise ValueError(
            "net has 0 units, but the report needs at least 1: lower its rank_penalty and train it."
        )
    Y = np.asarray(net.transform(X))
    between = M[~np.eye(len(M), dtype=bool)]
    after = np.asarray(deepcopy(net).partial_fit(X).cumulative_activity_)[: before.size]
    sparsity = activity_sparsity(np.maximum(Y, 0))
    return BiologicalReport(
        n_units=before.size,
        least_lateral_weight=float(min(between, default=0.0)),
        obeys_dales_law=bool(np.all(between >= 0)),
        least_answer=float(Y.min()),
        is_rectified=bool(Y.min() >= 0),
        learning_rates=(float(1 / before.max()), float(1 / before.min())),
        learning_rates_fall=bool(np.all(after >= before) and np.any(after > before)),
        probability_zero=sparsity.probability_zero,
        kurtosis=sparsity.kurtosis,
        lifetime_sparseness=float(sparsity.lifetime.mean()),
        population_sparseness=float(sparsity.population.mean()),
        fires_sparsely=sparsity.probability_zero > 0.5
        and sparsity.kurtosis > RECTIFIED_GAUSSIAN_KURTOSIS,
    )


class DirectionAlignment(NamedTuple):
    """What `direction_alignment` measures."""

    direction_cosines: FloatArray
    """For each sparse direction, its cosine with the nearest component."""
    component_cosines: FloatArray
    """For each component, its cosine with the nearest sparse direction."""
    found: float
    """Share of the directions whose cosine reaches the threshold."""


def direction_alignment(
    components: ArrayLike,
    directions: ArrayLike,
    *,
    both_signs: bool = True,
    threshold: float = 0.95,
) -> DirectionAlignment:
    """Compare learned weights with the sparse directions of the data (Fig. 5).

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Feedforward weights W; their lengths do not matter.
    directions : array-like of shape (n_directions, n_features)
        Sparse directions, one a row: the columns of the mixing matrix A are the rows of ``A.T``.
    both_signs : bool, default=True
        Whether to ask for the negatives of the directions too, which come after them in the
        answer: the 2n directions of section III.C.
    threshold : float, default=0.95
        A direction is found where some component has at least this cosine with it.

    Returns
    -------
    alignment : DirectionAlignment
        The fields `direction_cosines`, `component_cosines` and `found`. Without any component
        the cosines of the directions are -1.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.metrics import direction_alignment
    >>> alignment = direction_alignment([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]], np.eye(2))
    >>> alignment.direction_cosines, alignment.found
    (array([1., 1., 1., 0.]), 0.75)
    """
    W = check_array(components, dtype=np.float64, ensure_min_samples=0)
    wanted = check_array(directions, dtype=np.float64)
    if W.shape[1] != wanted.shape[1]:
        raise ValueError(
            f"components have {W.shape[1]} features and directions {wanted.shape[1]}, but must "
            "have the same number: give one direction a row."
        )
    if both_signs:
        wanted = np.vstack([wanted, -wanted])
    cosines = _unit_rows(wanted) @ _unit_rows(W).T
    nearest = cosines.max(axis=1, initial=-1.0)
    return DirectionAlignment(nearest, cosines.max(axis=0), float(np.mean(nearest >= threshold)))


def _unit_rows(rows: FloatArray) -> FloatArray:
    # A zero row stays zero, at a right angle to everything.
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY))


class GaborFits(NamedTuple):
    """The Gabor functions nearest to a set of filters, one entry a filter.

    A filter is ``exp(-u^2 / (2 width^2) - v^2 / (2 length^2)) cos(2 pi frequency u + phase)``
    times an amplitude, plus a constant, where v runs along the stripes and u across them, in the
    direction `orientation` + pi/2, both from the centre (x, y).
    """

    x: FloatArray
    """Column of the centre, in pixels; 0 is the middle of the first column."""
    y: FloatArray
    """Row of the centre, in pixels, downwards."""
    orientation: FloatArray
    """Direction of the stripes in radians, in 0..pi, from the x axis towards the y axis."""
    frequency: FloatArray
    """Spatial frequency, in cycles per pixel."""
    bandwidth: FloatArray
    """Full width at half height of the frequency tuning, in octaves; infinite where low-pass."""
    phase: FloatArray
    """Phase of the carrier at the centre, in -pi..pi; 0 and pi are even, +-pi/2 odd."""
    width: FloatArray
    """Standard deviation of the envelope across the stripes, in pixels."""
    length: FloatArray
    """Standard deviation of the envelope along the stripes, in pixels."""
    explained: FloatArray
    """Share of the filter's variance over pixels that the Gabor function explains, in 0..1."""

    @property
    def aspect_ratio(self) -> FloatArray:
        """Length of the envelope over its width."""
        return self.length / self.width


def fit_gabors(filters: ArrayLike, patch_shape: tuple[int, int] | None = None) -> GaborFits:
    """Fit a Gabor function to each filter, as is done for simple cells of V1 (ref. [28]).

    Parameters
    ----------
    filters : array-like of shape (n_filters, n_pixels)
        The filters, each row by row; their scale and mean do not matter.
    patch_shape : tuple of int, default=None
        Height and width of a filter; square where None.

    Returns
    -------
    fits : GaborFits
        Arrays of shape (n_filters,). A constant filter has ``explained=0`` and the other fields
        NaN.

    Notes
    -----
    For given centre, direction, frequency and envelope, amplitude and phase are the coefficients
    of a cosine and a sine: a linear problem. What remains is searched over a coarse grid and
    polished from the best of three scales by damped Gauss-Newton steps (variable projection,
    Golub & Pereyra 1973, in Kaufman's form), for many filters at once.

    The centre lies a pixel or more inside the patch, the deviations of the envelope between 1.25
    pixels and half the patch, and the frequency between one cycle per patch and 0.5 cycles per
    pixel: what lies beyond is not resolved. Eight free numbers explain about a twelfth of the
    variance of white noise of 16 x 16 pixels, but a quarter of 8 x 8: read `explained` with the
    size of the patch in mind. Smooth noise has few degrees of freedom at any size: fit the filters
    that act on images (`image_filters`), not patches or the patterns that drive a unit.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.metrics import fit_gabors
    >>> y, x = np.mgrid[:16, :16]
    >>> bars = np.exp(-((x - 6) ** 2 + (y - 9) ** 2) / 12.5) * np.cos(0.4 * np.pi * (x - 6))
    >>> fits = fit_gabors(bars.reshape(1, -1))
    >>> fits.frequency.round(3), fits.x.round(3), fits.explained.round(3)
    (array([0.2]), array([6.]), array([1.]))
    """
    F = check_array(filters, dtype=np.float64, ensure_min_samples=0)
    height, width = _check_patch_shape(F.shape[1], patch_shape)
    F = F / np.maximum(np.abs(F).max(axis=1, keepdims=True), TINY)
    F -= F.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(F, axis=1)
    varied = norms > 1e-10
    F = F[varied] / norms[varied, np.newaxis]

    grid = np.mgrid[:height, :width].reshape(2, -1)[::-1].astype(np.float64)
    bounds = _bounds(height, width)
    scales = [_coarse_search(height, width, sigma) for sigma in START_SIGMAS]
    bases = [_orthonormalise(*_gabor_pair(params, grid)[:2]) for params in scales]
    found = [np.empty((0, 9))]
    for first in range(0, len(F), FILTERS_AT_ONCE):
        rows = slice(first, first + FILTERS_AT_ONCE)
        starts = [
            params[np.argmax((F[rows] @ q.first.T) ** 2 + (F[rows] @ q.second.T) ** 2, axis=1)]
            for params, q in zip(scales, bases, strict=True)
        ]
        found.append(_polish(F[rows], np.stack(starts), grid, bounds))
    table = np.full((len(varied), 9), np.nan)
    table[:, -1] = 0.0
    table[varied] = np.vstack(found)
    return _describe(table)


def _check_patch_shape(n_pixels: int, patch_shape: tuple[int, int] | None) -> tuple[int, int]:
    side = round(n_pixels**0.5)
    height, width = (side, side) if patch_shape is None else patch_shape
    if height * width != n_pixels or min(height, width) < 5:
        raise ValueError(
            f"patch_shape={patch_shape!r} does not suit filters of {n_pixels} pixels: height times "
            "width must be that number, and neither may be below 5; give (height, width)."
        )
    return height, width


def _bounds(height: int, width: int) -> tuple[FloatArray, FloatArray]:
    """Return the least and greatest x, y, direction of u, frequency, width and length."""
    side = max(height, width)
    # One pixel from the border: nearer, the patch can hide all of an envelope but one pixel.
    low = [1, 1, -np.inf, 1 / side, MIN_SIGMA, MIN_SIGMA]
    high = [width - 2, height - 2, np.inf, 0.5, side / 2, side / 2]
    return np.array(low), np.array(high)


def _coarse_search(height: int, width: int, sigma: float) -> FloatArray:
    side = max(height, width)
    axes = (
        np.linspace(1, width - 2, 7),
        np.linspace(1, height - 2, 7),
        np.linspace(0, np.pi, 8, endpoint=False),
        np.geomspace(1 / side, 0.4, 5),
        [max(sigma * side, MIN_SIGMA)],
    )
    params = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 5)
    return np.hstack([params, params[:, -1:]])


class _Basis(NamedTuple):
    """An orthonormal basis of the pair ``E cos``, ``E sin``, made orthogonal to constants."""

    first: FloatArray
    second: FloatArray
    first_norm: FloatArray
    second_norm: FloatArray
    overlap: FloatArray


def _gabor_pair(params: FloatArray, grid: FloatArray) -> tuple[FloatArray, ...]:
    """Return the pair and the coordinates u, v, one row a set of parameters."""
    x, y, direction, frequency, width, length = params.T[:, :, np.newaxis]
    cos, sin = np.cos(direction), np.sin(direction)
    u = cos * (grid[0] - x) + sin * (grid[1] - y)
    v = cos * (grid[1] - y) - sin * (grid[0] - x)
    envelope = np.exp(-0.5 * ((u / width) ** 2 + (v / length) ** 2))
    angle = 2 * np.pi * frequency * u
    return envelope * np.cos(angle), envelope * np.sin(angle), u, v


def _orthonormalise(even: FloatArray, odd: FloatArray) -> _Basis:
    first = even - even.mean(axis=1, keepdims=True)
    odd = odd - odd.mean(axis=1, keepdims=True)
    # At the highest frequency one of the pair can vanish: the floor keeps it near zero.
    first_norm = np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-6)
    first /= first_norm
    overlap = np.sum(first * odd, axis=1, keepdims=True)
    second = odd - overlap * first
    second_norm = np.maximum(np.linalg.norm(second, axis=1, keepdims=True), 1e-6)
    return _Basis(first, second / second_norm, first_norm, second_norm, overlap)


def _linearise(
    params: FloatArray, F: FloatArray, grid: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return coefficients of the pair, share explained, its half gradient and half Hessian."""
    even, odd, u, v = _gabor_pair(params, grid)
    basis = _orthonormalise(even, odd)
    on_first = np.sum(basis.first * F, axis=1, keepdims=True)
    on_second = np.sum(basis.second * F, axis=1, keepdims=True)
    b = on_second / basis.second_norm
    a = (on_first - basis.overlap * b) / basis.first_norm
    residual = F - on_first * basis.first - on_second * basis.second

    direction, frequency, width, length = params.T[2:, :, np.newaxis]
    cos, sin = np.cos(direction), np.sin(direction)
    model = a * even + b * odd
    carrier_slope = 2 * np.pi * (b * even - a * odd)
    by_u = frequency * carrier_slope - model * u / width**2
    by_v = -model * v / length**2
    J = np.stack(
        [
            sin * by_v - cos * by_u,
            -sin * by_u - cos * by_v,
            v * by_u - u * by_v,
            u * carrier_slope,
            model * u**2 / width**3,
            model * v**2 / length**3,
        ],
        axis=1,
    )
    gradient = np.einsum("nip,np->ni", J, residual)
    # Kaufman: the part of J that the linear coefficients can undo does not count.
    J -= J.mean(axis=2, keepdims=True)
    for q in (basis.first, basis.second):
        J -= np.einsum("nip,np->ni", J, q)[:, :, np.newaxis] * q[:, np.newaxis]
    explained = (on_first**2 + on_second**2)[:, 0]
    return np.hstack([a, b]), explained, gradient, J @ J.transpose(0, 2, 1)


def _polish(
    F: FloatArray, starts: FloatArray, grid: FloatArray, bounds: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Climb from each start by Levenberg-Marquardt steps; keep each filter's best."""
    low, high = bounds
    n_starts, n_filters, n_params = starts.shape
    F = np.tile(F, (n_starts, 1))
    params = np.clip(starts.reshape(-1, n_params), low, high)
    coefs, explained, gradient, hessian = _linearise(params, F, grid)
    damping = np.full(len(F), 0.01)
    live = np.arange(len(F))
    for _ in range(N_STEPS):
        g, H, p = gradient[live], hessian[live], params[live]
        # A parameter that presses against its bound sits this step out.
        free = ~(((p <= low) & (g < 0)) | ((p >= high) & (g > 0)))
        H = H * (free[:, :, np.newaxis] & free[:, np.newaxis])
        diagonal = np.einsum("nii->ni", H)
        diagonal *= 1 + damping[live, np.newaxis]
        diagonal += 1e-9
        trial = np.clip(p + np.linalg.solve(H, (g * free)[..., np.newaxis])[..., 0], low, high)
        answer = _linearise(trial, F[live], grid)
        gain = answer[1] - explained[live]
        better = gain > 0
        to = live[better]
        params[to] = trial[better]
        for kept, new in zip((coefs, explained, gradient, hessian), answer, strict=True):
            kept[to] = new[better]
        damping[live] *= np.where(better, 0.2, 5.0)
        live = live[~((better & (gain < 1e-8)) | (damping[live] > 1e6))]
        if live.size == 0:
            break
    table = np.column_stack([params, coefs, explained]).reshape(n_starts, n_filters, -1)
    return np.asarray(table[np.argmax(table[..., -1], axis=0), np.arange(n_filters)])


def _describe(table: FloatArray) -> GaborFits:
    x, y, direction, frequency, width, length, a, b, explained = table.T
    orientation = np.mod(direction - np.pi / 2, np.pi)
    # The other way round, u changes its sign, and with it the sine.
    b = np.where(np.cos(direction - np.pi / 2 - orientation) < 0, -b, b)
    # Half the width at half height of a Gaussian tuning curve of deviation 1 / (2 pi width).
    half = np.sqrt(2 * np.log(2)) / (2 * np.pi * width)
    ratio = np.divide(
        frequency + half, frequency - half, out=np.full_like(half, np.inf), where=frequency > half
    )
    bandwidth = np.where(np.isnan(width), np.nan, np.log2(ratio))
    phase = np.arctan2(-b, a)
    return GaborFits(x, y, orientation, frequency, bandwidth, phase, width, length, explained)
