"""Eq. (5)."""

import pytest

from hebbnmf.engine.recruitment import recruit


@pytest.mark.parametrize(
    ("x_norm2", "y_norm2", "lam", "expected"),
    [
        (4.0, 0.0, 15.9, 2.0),
        (4.0, 0.0, 16.0, 0.0),  # the inequality is strict
        (13.0, 4.0, 80.0, 3.0),
        (4.0, 13.0, 80.0, 0.0),  # the square of the residual passes, the residual does not
        (0.0, 0.0, 0.0, 0.0),
        (1.0, 1.0 - 1e-9, 0.0, 0.0),  # rounding residue
    ],
)
def test_a_unit_is_recruited_if_the_residual_exceeds_the_root_of_lambda(
    x_norm2, y_norm2, lam, expected
):
    assert recruit(x_norm2, y_norm2, lam**0.5, 1e-7) == pytest.approx(expected)
