#!/usr/bin/env python3
"""Random crops beside torchvision's: not the same numbers, but drawn alike."""

import subprocess
import sys
import unittest

import numpy

PROBE = sys.argv.pop(1)
COUNT = 4000


def ours(width: int, height: int) -> numpy.ndarray:
    done = subprocess.run([PROBE, "crops", str(width), str(height), str(COUNT)], capture_output=True, check=True)
    return numpy.array([line.split() for line in done.stdout.splitlines()], dtype=float)


def distance(left, right) -> float:
    """Kolmogorov and Smirnov's: the most that the two distributions are apart."""
    places = numpy.concatenate([left, right])
    below = [numpy.searchsorted(numpy.sort(side), places, side="right") / len(side) for side in (left, right)]
    return float(numpy.abs(below[0] - below[1]).max())


class CropsTest(unittest.TestCase):
    def test_flips_are_half_of_them(self):
        flips = ours(500, 375)[:, 4].mean()
        self.assertLess(abs(flips - 0.5), 4 * 0.5 / COUNT**0.5)

    def test_parts_are_spread_as_torchvisions_are(self):
        import torch
        from torchvision.transforms import RandomResizedCrop
        torch.manual_seed(1)
        # The last is too narrow for most tries: the fallback is among them.
        for width, height in ((500, 375), (375, 500), (64, 64), (1000, 120)):
            blank = torch.empty(3, height, width)
            drawn = [RandomResizedCrop.get_params(blank, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(COUNT)]
            y, x, h, w = numpy.array(drawn, dtype=float).T
            found = ours(width, height)
            for name, mine, theirs in (
                    ("x", found[:, 0], x), ("y", found[:, 1], y), ("width", found[:, 2], w), ("height", found[:, 3], h),
                    ("area", found[:, 2] * found[:, 3], w * h), ("ratio", found[:, 2] / found[:, 3], w / h)):
                with self.subTest(name, width=width, height=height):
                    # Alike, they are further apart than this once in some hundred thousand times.
                    self.assertLess(distance(mine, theirs), 2.5 * (2 / COUNT) ** 0.5)


if __name__ == "__main__":
    unittest.main()
