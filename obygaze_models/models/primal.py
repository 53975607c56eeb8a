"""Fit support vector machines by Newton's method, without a Gram matrix.

libsvm needs the dot products of all pairs of rows (the Gram matrix): its time and memory grow with
the square of the number of rows. Here, the loss of a row, max(0, 1 - margin), gets a rounded
corner. Newton's method minimises the smooth sum, and the corner is narrowed until the plane is more
exact than the plane of libsvm with its default tolerance. Each step reads the rows a few times.
"""

from collections.abc import Callable, Sequence

import numpy as np

from obygaze_models.models.common import Bools, FixTraining, Floats

# Widths of the corner, in the order of use, in units of the decision.
WIDTHS = (0.05, 0.005, 0.0005)
# Widths for decisions that are exact to .001 also far from the margin.
NARROW = (*WIDTHS, 5e-5, 5e-6)
MAX_STEPS = 100
# Stop if a step would lower the loss by a smaller share.
SMALLEST_GAIN = 1e-9
# The same for a wide corner, whose plane is only a start.
SMALLEST_EARLY_GAIN = 1e-4
# Largest slope after a line search, as a share of the slope at its start.
SLOPE_LEFT = 0.02
MAX_HALVINGS = 40
# Keep the equations solvable if no row determines the bias.
LEAST_CURVATURE = 1e-10
CURVATURE_WITHOUT_CORNER = 1e-3


def hinge_plane(
    X: Floats,
    positive: Bools,
    limits: Floats,
    start: Floats | None = None,
    widths: Sequence[float] = WIDTHS,
) -> Floats:
    """Return the normal vector of the soft-margin classifier, followed by the bias.

    Args:
        X: The rows.
        positive: Whether each row is on the positive side.
        limits: For each row, the tolerance C multiplied by the weight of the row.
        start: A plane to start from, such as the plane for a different tolerance.
        widths: The widths of the rounded corner of the loss, in the order of use.
    """
    from scipy.linalg import cho_factor, cho_solve

    signs = np.where(positive, 1.0, -1.0)
    plane = np.zeros(X.shape[1] + 1) if start is None else start
    decisions = X @ plane[:-1] + plane[-1]
    for width in widths:
        is_last = width <= WIDTHS[-1]
        smallest_gain = SMALLEST_GAIN if is_last else SMALLEST_EARLY_GAIN
        for _ in range(MAX_STEPS):
            distances = 1 - signs * decisions
            slopes = _slopes(distances, width)
            gradient = _gradient(X, plane, signs * limits * slopes)
            curvature = _curvature(X, limits, slopes, width)
            step = -cho_solve(cho_factor(curvature), gradient)
            gain = -float(gradient @ step)
            normal = plane[:-1]
            loss = normal @ normal / 2 + limits @ np.maximum(distances, 0)
            if not np.isfinite(loss):
                raise FixTraining(
                    "the support vector machine has a vector that is not finite"
                )
            if gain <= smallest_gain * loss:
                break
            changes = X @ step[:-1] + step[-1]

            def slope_at(
                t: float,
                *,
                distances: Floats = distances,
                approached: Floats = -signs * changes,
                across: float = float(normal @ step[:-1]),
                squared: float = float(step[:-1] @ step[:-1]),
                width: float = width,
            ) -> float:
                """Return the slope of the loss after a fraction t of the step."""
                slopes = _slopes(distances + t * approached, width)
                return across + t * squared + float((limits * slopes) @ approached)

            t = _where_flat(slope_at, SLOPE_LEFT * gain)
            plane = plane + t * step
            decisions = decisions + t * changes
    return plane


def _slopes(distances: Floats, width: float) -> Floats:
    """Return the slope of the loss of each row, from 0 to 1, by its distance from the margin."""
    return np.clip(distances / width + 0.5, 0.0, 1.0)


def _gradient(X: Floats, plane: Floats, duals: Floats) -> Floats:
    gradient = np.empty_like(plane)
    gradient[:-1] = plane[:-1] - duals @ X
    gradient[-1] = -duals.sum()
    return gradient


def _curvature(X: Floats, limits: Floats, slopes: Floats, width: float) -> Floats:
    """Return the second derivatives of the loss; only rows in the corner contribute."""
    n_features = X.shape[1]
    in_corner = np.flatnonzero((slopes > 0) & (slopes < 1))
    roots = np.sqrt(limits[in_corner] / width)[:, None]
    rows = np.hstack([X[in_corner] * roots, roots])
    curvature: Floats = rows.T @ rows
    curvature[np.arange(n_features), np.arange(n_features)] += 1.0
    least = LEAST_CURVATURE if len(in_corner) else CURVATURE_WITHOUT_CORNER
    curvature[-1, -1] += least * limits.sum()
    return curvature


def _where_flat(slope_at: Callable[[float], float], most_slope: float) -> float:
    """Return the fraction of a step at which the slope of the loss is nearly 0.

    The slope rises along the step. Secant steps and bisections alternate.
    """
    low = 0.0
    high = 1.0
    low_slope = slope_at(low)
    high_slope = slope_at(high)
    while high_slope < -most_slope:
        low = high
        low_slope = high_slope
        high *= 2
        high_slope = slope_at(high)
    if high_slope <= most_slope:
        return high
    for turn in range(MAX_HALVINGS):
        t = (low + high) / 2
        if turn % 2:
            t = low - low_slope * (high - low) / (high_slope - low_slope)
        slope = slope_at(t)
        if abs(slope) <= most_slope:
            return t
        if slope < 0:
            low = t
            low_slope = slope
        else:
            high = t
            high_slope = slope
    return low
