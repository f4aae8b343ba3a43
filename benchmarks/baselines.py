"""The lines to beat: Algorithm 1 one sample at a time, compiled and in numpy, and the floor."""

import numba
import numpy as np


class PlainLoop:
    """Algorithm 1 on a grown network, sample by sample, as a good compiled loop has it."""

    def __init__(self, network, *, step=None):
        self.W = network.components.copy()
        # Columns of M contiguous: a change of one activity then touches one row of memory.
        self.M_T = np.ascontiguousarray(network.lateral_weights.T)
        self.Yhat = network.cumulative_activity
        self.gain, self.tol = network.rules.gain, network.rules.tol
        self.memory, self.n_samples = network.rules.memory, network.n_samples
        self.step = step or _plain_loop

    def learn(self, X):
        Y = np.zeros((len(X), len(self.W)), X.dtype)
        gammas, tol = self.discounts(len(X)), X.dtype.type(self.tol)
        self.step(X, Y, self.W, self.M_T, self.Yhat, gammas, self.gain, tol)
        self.n_samples += len(X)
        return Y

    def discounts(self, n_samples):
        T = self.n_samples + np.arange(n_samples)
        if self.memory == 0:
            return np.ones(n_samples)
        share = 1 - (1 / self.memory - 1) / (T + 10 / self.memory)
        return share if self.memory < 1 else np.full(n_samples, 1 - 1 / self.memory)


class NumpyLoop(PlainLoop):
    """The same without a compiler."""

    def __init__(self, network):
        super().__init__(network, step=_numpy_loop)


def product_floor(V, X, size=128):
    """The bare product ``V @ X_B.T`` in blocks: no exact learner can be faster."""
    for start in range(0, len(X), size):
        V @ X[start : start + size].T


@numba.njit(fastmath={"reassoc", "contract", "nsz"})
def _plain_loop(X, Y, W, M_T, Yhat, gammas, gain, tol):
    K, n = W.shape
    for t in range(len(X)):
        x, y = X[t], Y[t]
        net = np.dot(W, x)
        while True:
            move = top = np.float32(0) * x[0]
            for i in range(K):
                new = max(net[i], np.float32(0))
                change = new - y[i]
                if change != 0:
                    y[i] = new
                    row = M_T[i]
                    for k in range(K):
                        net[k] -= change * row[k]
                    move = max(move, abs(change))
                top = max(top, new)
            if move <= tol * top:
                break
        if gammas[t] != 1:
            Yhat *= gammas[t]
        for i in range(K):
            y_i = y[i]
            if y_i > 0:
                Yhat[i] += gain * y_i * y_i
                rate = X.dtype.type(y_i / max(Yhat[i], y_i * y_i))
                W_i = W[i]
                for j in range(n):
                    W_i[j] += rate * (x[j] - y_i * W_i[j])
                for k in range(K):
                    M_T[k, i] += rate * (y[k] - y_i * M_T[k, i])
                M_T[i, i] = 0


def _numpy_loop(X, Y, W, M_T, Yhat, gammas, gain, tol):
    for x, y, gamma in zip(X, Y, gammas, strict=True):
        net = W @ x
        move = top = 1.0
        while move > tol * top:
            move = 0.0
            for i in range(len(W)):
                new = max(net[i], 0.0)
                change = new - y[i]
                if change:
                    y[i] = new
                    net -= change * M_T[i]
                    move = max(move, abs(change))
            top = y.max()
        active = np.flatnonzero(y)
        Yhat *= gamma
        Yhat[active] += gain * y[active] ** 2
        rate = (y[active] / np.maximum(Yhat[active], y[active] ** 2))[:, None]
        W[active] += rate * (x - y[active, None] * W[active])
        M_T[:, active] += (rate * (y - y[active, None] * M_T[:, active].T)).T
        M_T[active, active] = 0


@numba.njit(fastmath=True)
def fast_similarity_matching(X, W, M_inverse):
    """Fast Similarity Matching (Giovannucci, Minden, Pehlevan & Chklovskii 2018), plain loop.

    ``y = M^-1 W x``, then W and M move towards ``y x'`` and ``y y'`` by the rates 2 eta and
    eta / tau, with ``eta = 1 / (t + 5)`` and ``tau = 0.5``; M^-1 by the formula of Sherman and
    Morrison. W and M_inverse are changed in place.
    """
    m, n = W.shape
    y, z = np.empty(m), np.empty(m)
    for t in range(len(X)):
        eta = 1 / (t + 5)
        y[:] = M_inverse @ (W @ X[t])
        for i in range(m):
            for j in range(n):
                W[i, j] += 2 * eta * (y[i] * X[t, j] - W[i, j])
        rate = eta / 0.5
        M_inverse /= 1 - rate
        z[:] = M_inverse @ y
        share = rate / (1 + rate * np.dot(z, y))
        for i in range(m):
            for j in range(m):
                M_inverse[i, j] -= share * z[i] * z[j]
