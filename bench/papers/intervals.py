"""Means with 95 % intervals of few samples, by Student's t."""
import math, statistics

# Quantile 0.975 by degrees of freedom. Source: the t distribution; for 2 degrees it is 0.95 sqrt(2 / (1 - 0.95^2)).
QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(samples):
    """(mean, lowest, highest) of 2 to 10 samples."""
    mean = statistics.fmean(samples)
    half = QUANTILES[len(samples) - 1] * statistics.stdev(samples) / math.sqrt(len(samples))
    return mean, mean - half, mean + half


def contains_zero(samples):
    _, low, high = interval(samples)
    return low <= 0 <= high
