"""Identity units: the principal subspace, by unconstrained similarity matching, in blocks.

Without a rectifier the response is linear. With the discounted sums over the samples so far (see
`hebbnmf.engine.plasticity`)::

    A = sum_t w_t y_t y_t',    B = sum_t w_t y_t x_t',    y = A^-1 B x

W = B / diag(A) and M = A / diag(A) - I are the weights of the network. What is kept is A and the
response as one matrix, ``F = A^-1 B``, which learning turns into an orthonormal basis of the
principal subspace. By ``A <- gamma A + y y'``, ``B <- gamma B + y x'`` it learns from what it does
not explain::

    F <- F + A^-1 y (x - F'y)'

Units are recruited by Eq. (5) with ``lambda = 0``: a sample whose length the response does not
reach, ``r = |x|^2 - |y|^2 > 0``, recruits a unit with the activity ``sqrt(r)``. This makes the
responses to the first m independent samples exact, ``Y Y' = X X'``, and F an orthonormal basis of
their span: the Gram-Schmidt process by local rules, without a parameter or a scale.

A block of b samples
--------------------
Let ``X`` be its rows, ``A_0, F_0`` what is known before the block and ``Gamma_t`` the product of
its discounts up to sample t. Dividing A and B by ``Gamma_t`` leaves F alone and lets samples add up
with growing weights ``w_t = 1 / Gamma_t`` instead of fading. With ``h_t = A_t^-1 y_t``::

    A_t = A_{t-1} + w_t y_t y_t',    F_t = F_{t-1} + w_t h_t (x_t - F_{t-1}'y_t)'

The products ``P = X F_0'`` and ``G = X X'`` are taken once a block. After sample s the responses to
the later samples t of the block are made true by what F has learned from it::

    P_t <- P_t + w_s (G_st - y_s'P_t) h_s

so that ``y_t = P_t`` when its turn comes. h follows from ``H = A^-1``, which the formula of Sherman
and Morrison keeps up to date: with ``u = H y``, ``h = u / (1 + w y'u)`` and ``H <- H - w h u'``.
A unit recruited with the activity v gets the row ``(x - F'y) / v`` and leaves those of the others
alone: h is then ``1 / (w v)`` for this unit and 0 for the others, and H a bordered inverse::

    [ H       -u / v               ]
    [ -u' / v  1/(w v^2) + y'u / v^2 ]

All of that is arithmetic in m dimensions. At the end of the block F follows from A F = B, which
makes its step, with the weights w in the diagonal matrix D, the responses as the rows of Y and
H = A_b^-1::

    F_b = F_0 + H Y'D (X - Y F_0)

by products of matrices, as ``A = Gamma_b A_b``. H is computed from A anew in every block, so that
its rounding errors do not grow.

Centring
--------
The discounted scatter about the mean ``mu`` of the stream so far is itself a sum, of the samples
``z_t = sqrt(gamma N_{t-1} / N_t) (x_t - mu_{t-1})`` with the sum of weights
``N_t = gamma N_{t-1} + 1`` [1]_. These take the place of x.

.. [1] T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for Computing the Sample Variance",
   The American Statistician, 1983.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import eigh, qr, solve_triangular

from hebbnmf.engine._blas import one_blas_thread
from hebbnmf.engine._jit import jit, jit_inner
from hebbnmf.engine.network import Responses, writable
from hebbnmf.engine.plasticity import FORGOTTEN, discount
from hebbnmf.engine.rows import add_row, add_rows, inner
from hebbnmf.engine.state import BLOCK, FloatArray, IndexArray, Scalar

__all__ = ["Subspace", "SubspaceNetwork", "SubspaceRules"]

# Samples a block: a part of BLOCK, since streams come in chunks of that.
_BLOCK = BLOCK // 3
# A direction of response is forgotten when its activity falls below this share of the largest.
_FADED = 1e-12


Axes = tuple[NDArray[np.float64], NDArray[np.float64]]


class SubspaceRules(NamedTuple):
    """Settings of a network of identity units, as its kernel takes them."""

    max_units: int  # m
    memory: float  # as in `Rules`
    center: bool  # learn from the samples less their running mean
    floor: float  # share of |x|^2 that is never a reason to recruit


class Subspace(NamedTuple):
    """What a network of identity units has learned, in float64; the first K units are recruited."""

    A: NDArray[np.float64]  # (m, m) discounted sum of y y'
    F: NDArray[np.float64]  # (m, n) A^-1 B
    mean: NDArray[np.float64]  # (n,) of the samples; zeros where they are not centred
    energy: NDArray[np.float64]  # (2,) discounted sums of |x|^2, centred, and of 1


class SubspaceNetwork:
    """Network of identity units that learns online, without validation.

    It trusts its caller, as `Network` does, and has what `Learner` asks of a network.

    Parameters
    ----------
    n_features : int
        Number of features of a sample.
    rules : SubspaceRules
        How it learns.
    dtype : dtype, default=numpy.float64
        Type of the samples and activities; what is learned is always float64.

    Attributes
    ----------
    n_units, n_samples : int
        Numbers of units recruited and of samples learned so far.
    n_turns : int
        Number of times that a direction was forgotten and the units were turned.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.engine.subspace import SubspaceNetwork, SubspaceRules
    >>> net = SubspaceNetwork(2, SubspaceRules(1, 0.0, False, 1e-8))
    >>> net.learn(np.array([[2.0, 0.0], [3.0, 1.0], [-2.0, 0.0]])).Y.round(2).tolist()
    [[2.0], [3.0], [-2.0]]
    """

    def __init__(
        self, n_features: int, rules: SubspaceRules, dtype: DTypeLike = np.float64
    ) -> None:
        self.n_features = n_features
        self.rules = rules
        self.dtype = np.dtype(dtype)
        self.n_units = 0
        self.n_samples = 0
        self.n_turns = 0
        self._subspace = _no_subspace(0, n_features)
        self._axes: Axes | None = None  # until the network learns again

    @property
    def learned(self) -> Subspace:
        """What the recruited units have learned, as views."""
        K = self.n_units
        A, F, mean, energy = self._subspace
        return Subspace(A[:K, :K], F[:K], mean, energy)

    @property
    def filters(self) -> FloatArray:
        """F, the response as one matrix, (n_units, n_features)."""
        return self.learned.F.astype(self.dtype)

    @property
    def feedforward_weights(self) -> FloatArray:
        """W, (n_units, n_features)."""
        A, F, _, _ = self.learned
        return np.asarray(A @ F / A.diagonal()[:, None], self.dtype)

    @property
    def lateral_weights(self) -> FloatArray:
        """M, (n_units, n_units), signed: row i inhibits unit i where positive."""
        A = self.learned.A
        return (A / A.diagonal()[:, None] - np.eye(len(A))).astype(self.dtype)

    @property
    def cumulative_activity(self) -> NDArray[np.float64]:
        """Yhat, (n_units,)."""
        return self.learned.A.diagonal().copy()

    @property
    def state(self) -> Subspace:
        """Copies of all that was learned, without spare room; `restore` goes on from them."""
        return _with_room(self.learned, self.n_units)

    def restore(self, subspace: Subspace, n_samples: int) -> None:
        """Continue from a `state`."""
        self.n_units = len(subspace.A)
        self.n_samples = n_samples
        self._subspace = _with_room(subspace, self.n_units)
        self._axes = None

    def add_features(self, n_new: int) -> None:
        """Add features that were zero in all samples so far."""
        A, F, mean, energy = self._subspace
        F, mean = np.pad(F, ((0, 0), (0, n_new))), np.pad(mean, (0, n_new))
        self._subspace = Subspace(A, F, mean, energy)
        self.n_features += n_new
        self._axes = None

    def learn(self, X: FloatArray, *, recruit: bool = True, keep: bool = True) -> Responses:
        """Present samples in order; learn from each and return the responses given on arrival.

        Parameters and result as in `Network.learn`. No sample is deferred: with ``recruit=False``
        those that would recruit are learned without. Labels are -1: signed units name no cluster.
        """
        m = max(self.n_units, self.rules.max_units if recruit else 0)
        if m != len(self._subspace.A):
            self._subspace = _with_room(self.learned, m)
        Y = np.zeros((len(X) if keep else 0, m), self.dtype)
        with one_blas_thread(self.n_features, _BLOCK, max(len(self._subspace.A), _BLOCK)):
            self.n_units, n_turns = _learn_rows(
                self.n_units, self.n_samples, writable(X), Y, self._subspace, self.rules
            )
        self.n_turns += n_turns
        self.n_samples += len(X)
        self._axes = None
        Y = np.ascontiguousarray(Y[:, : self.n_units])
        return Responses(Y, np.full(len(X), -1), 0, [])

    def respond(self, X: FloatArray, n_jobs: int | None = None, *, keep: bool = True) -> Responses:  # noqa: ARG002
        """Respond to samples with frozen weights; BLAS decides on the number of threads."""
        Y = np.empty((0, self.n_units), self.dtype)
        if keep:
            Y = (X - self._subspace.mean.astype(self.dtype)) @ self.filters.T
        return Responses(Y, np.full(len(X), -1), 0, [])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was learned, also where joblib has mapped it from a file for reading."""
        self.__dict__.update(state)
        self._subspace = Subspace(*map(writable, self._subspace))

    def principal_axes(self) -> Axes:
        """Return the orthonormal principal axes of the responses, and their discounted scatter.

        With ``F = R'Q'``, Q orthonormal, the coordinates ``u = Q'x`` of a sample have the response
        ``y = R'u``, and so the scatter ``R'^-1 A R^-1``, whose eigenvectors are the axes. The
        largest entry of each axis is positive.
        """
        if self._axes is None:
            self._axes = self._principal_axes()
        return self._axes

    def _principal_axes(self) -> Axes:
        K = self.n_units
        if K == 0:
            return np.zeros((0, self.n_features)), np.zeros(0)
        Q, R = qr(self.learned.F.T, mode="economic")
        half = solve_triangular(R, self.learned.A, trans="T")
        scatter, turn = eigh(solve_triangular(R, half.T, trans="T"))
        axes = (Q @ turn[:, ::-1]).T
        largest = axes[np.arange(K), np.abs(axes).argmax(axis=1)]
        return axes * np.sign(largest)[:, None], scatter[::-1].copy()


def _no_subspace(m: int, n: int) -> Subspace:
    return Subspace(np.zeros((m, m)), np.zeros((m, n)), np.zeros(n), np.zeros(2))


def _with_room(subspace: Subspace, m: int) -> Subspace:
    """Copy what was learned into arrays with room for m units, at least those that there are."""
    roomy, K = _no_subspace(m, len(subspace.mean)), len(subspace.A)
    roomy.A[:K, :K], roomy.F[:K] = subspace.A, subspace.F
    return roomy._replace(mean=subspace.mean.copy(), energy=subspace.energy.copy())


@jit
def _learn_rows(
    K: int,
    n_samples: int,
    X: FloatArray,
    Y: FloatArray,
    subspace: Subspace,
    rules: SubspaceRules,
) -> tuple[int, int]:
    """Learn some rows, block by block; return the number of units, and of turns of all of them.

    Parameters
    ----------
    K : int
        Number of units.
    n_samples : int
        Number of samples presented before.
    X : array of shape (n_rows, n), IN
        The samples.
    Y : array of shape (n_rows, m) or (0, m), OUT
        The responses, zeros where units were not yet; not wanted if there is no row.
    subspace : Subspace, INOUT
        What is learned, with room for as many units as there may be.
    rules : SubspaceRules
        The settings.
    """
    A, F, _, energy = subspace
    m = len(A)
    H, h, order = np.empty_like(A), np.empty(m), np.arange(m).astype(np.uint32)
    stack, step = np.empty((_BLOCK + m, len(F.T)), X.dtype), np.empty(F.shape, X.dtype)
    n_turns = 0
    for start in range(0, len(X), _BLOCK):
        b = min(_BLOCK, len(X) - start)
        Z = stack[: b + m]  # the samples and F, which are multiplied together
        weights = _growing_weights(n_samples + start, b, rules.memory)
        if rules.center:
            _centre(X[start : start + b], n_samples + start, rules.memory, subspace, Z)
        else:
            Z[:b] = X[start : start + b]
        while not _invert(K, H, A):
            K = _forget(K, subspace)
            n_turns += 1
        Z[b:] = F
        products = np.dot(Z[:b], Z.T)
        G, R = products[:, :b], products[:, b:].astype(np.float64)
        K = _respond_block(K, rules.floor, weights, G, R, H, h, order)
        if len(Y):
            Y[start : start + b] = R
        weighted = R * weights.reshape(-1, 1)
        C = np.dot(H, weighted.T)
        np.dot(np.hstack((C, -np.dot(C, R))).astype(X.dtype), Z, step)
        F += step
        left = 1 / weights[-1]
        A[:] = left * (A + np.dot(weighted.T, R))
        if not rules.center:
            energy *= left
            for t in range(b):
                energy[0] += left * weights[t] * G[t, t]
                energy[1] += left * weights[t]
    return K, n_turns


@jit
def _growing_weights(n_samples: int, b: int, memory: float) -> NDArray[np.float64]:
    """Return ``w = 1 / Gamma`` for the samples of a block."""
    weights, left = np.empty(b), 1.0
    for t in range(b):
        left *= discount(n_samples + t, memory)
        weights[t] = 1 / left
    return weights


@jit_inner
def _respond_block(
    K: int,
    floor: float,
    weights: FloatArray,
    G: FloatArray,
    R: FloatArray,
    H: FloatArray,
    h: FloatArray,
    order: IndexArray,
) -> int:
    """Respond to the samples of a block in order, each by what was learned from those before it.

    Parameters
    ----------
    K : int
        Number of units.
    floor : float
        Share of ``|x|^2`` that is never a reason to recruit.
    weights : array of shape (b,), IN
        Weights w of the samples.
    G : array of shape (b, b), IN
        Products of the samples.
    R : array of shape (b, m), INOUT
        The products P on entry; the responses.
    H : array of shape (m, m), INOUT
        The inverse of A, zeros where units were not yet.
    h : array of shape (m,), SCRATCH
        A learning step.

    Returns
    -------
    K : int
        Number of units.
    """
    m = len(H)
    for t in range(len(G)):
        y, w = R[t], weights[t]
        residual, y_u = float(G[t, t]), 0.0
        h[:K] = 0
        add_rows(K, order, y, H, 0, K, h)
        for i in range(K):
            residual -= y[i] * y[i]
            y_u += y[i] * h[i]
        if K < m and residual > floor * G[t, t]:  # Eq. (5) with lambda = 0
            y[K] = np.sqrt(residual)
            for i in range(K):
                H[i, K] = H[K, i] = -h[i] / y[K]
                h[i] = 0
            H[K, K] = (1 / w + y_u) / residual
            h[K] = 1 / (w * y[K])
            K += 1
        else:
            for i in range(K):
                add_row(-w / (1 + w * y_u) * h[i], h, 0, K, H[i])
            for i in range(K):
                h[i] /= 1 + w * y_u
        for later in range(t + 1, len(G)):
            unexplained = G[t, later] - inner(y[:K], R[later, :K])
            add_row(w * unexplained, h, 0, K, R[later])
    return K


@jit
def _centre(
    X: FloatArray, n_samples: int, memory: float, subspace: Subspace, Z: FloatArray
) -> None:
    """Write rows to Z less their running mean, scaled so that products add up to the scatter."""
    energy = subspace.energy
    for t in range(len(X)):
        gamma = discount(n_samples + t, memory)
        before = gamma * energy[1]
        scale = X.dtype.type(np.sqrt(before / (before + 1)))
        _centre_row(X[t], subspace.mean, 1 / (before + 1), scale, Z[t])
        energy[0] = gamma * energy[0] + float(inner(Z[t], Z[t]))
        energy[1] = before + 1


@jit_inner
def _centre_row(
    x: FloatArray, mean: FloatArray, share: float, scale: Scalar, z: FloatArray
) -> None:
    """Z = scale * (x - mean), and move the mean by its share of ``x - mean``."""
    for j in range(np.uint64(len(x))):
        shift = x[j] - mean[j]
        mean[j] += share * shift
        z[j] = scale * x.dtype.type(shift)


@jit
def _invert(K: int, H: FloatArray, A: FloatArray) -> bool:
    """Set H to the inverse of A, with zeros beyond K; return whether that can be done.

    Elimination by one pivot after the other. A pivot is what is left of the activity of a unit when
    that of the units before it is taken out, and no smaller than the least eigenvalue of A.
    """
    H[:] = 0
    H[:K, :K] = A[:K, :K]
    bound = _faded(K, A)
    for p in range(K):
        pivot = H[p, p]
        if not pivot > bound:
            return False
        H[p, p] = 1
        for j in range(K):
            H[p, j] /= pivot
        for i in range(K):
            if i != p:
                share, H[i, p] = H[i, p], 0.0
                add_row(-share, H[p], 0, K, H[i])
    return True


@jit
def _forget(K: int, subspace: Subspace) -> int:
    """Turn the responses onto the eigenvectors of A, keep those that are active; count them."""
    A, F = subspace.A, subspace.F
    bound = 2 * _faded(K, A)
    scatter, turn = np.linalg.eigh(A[:K, :K].copy())
    turned = np.dot(turn.T.copy(), F[:K])
    A[:], F[:] = 0, 0
    n_kept = 0
    for i in range(K - 1, -1, -1):
        if scatter[i] > bound:
            A[n_kept, n_kept], F[n_kept] = scatter[i], turned[i]
            n_kept += 1
    return n_kept


@jit
def _faded(K: int, A: FloatArray) -> float:
    """Return the activity at which a direction of response is forgotten."""
    largest = 0.0
    for i in range(K):
        largest = max(largest, A[i, i])
    return max(_FADED * largest, FORGOTTEN)
