"""The program's random numbers, from docs/formats.md."""
import math

import numpy as np
import torch

WORD = (1 << 64) - 1
GOLDEN = 0x9e3779b97f4a7c15


def mix(x):
    x = (x + GOLDEN) & WORD
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & WORD
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & WORD
    return x ^ (x >> 31)


def derive(key, *parts):
    for part in parts:
        key = mix(key ^ mix(part))
    return key


def uniforms(key, count):
    """The first `count` of a stream, in [0, 1)."""
    with np.errstate(over="ignore"):  # modulo 2^64
        x = np.uint64(mix(key)) + np.uint64(GOLDEN) * np.arange(1, count + 1, dtype=np.uint64)
        x += np.uint64(GOLDEN)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        x ^= x >> np.uint64(31)
    return torch.from_numpy((x >> np.uint64(11)).astype(np.float64) * 2.0 ** -53)


def normals(key, count):
    """The first `count` of a stream: Box–Muller, cosine branch, two draws a number."""
    pairs = uniforms(key, 2 * count).view(count, 2)
    return torch.sqrt(-2 * torch.log(1 - pairs[:, 0])) * torch.cos(2 * math.pi * pairs[:, 1])


class Stream:
    """One number after the other."""

    def __init__(self, key):
        self.state, self.n = mix(key), 0

    def bits(self):
        self.n += 1
        return mix((self.state + GOLDEN * self.n) & WORD)

    def uniform(self):
        return (self.bits() >> 11) * 2.0 ** -53

    def permutation(self, count):
        """Fisher–Yates from the end; numbers below n by rejection of the incomplete last block."""
        order = list(range(count))
        for size in range(count, 1, -1):
            draw, limit = WORD, WORD - WORD % size
            while draw >= limit:
                draw = self.bits()
            order[size - 1], order[draw % size] = order[draw % size], order[size - 1]
        return order


def permutation(count, key):
    return Stream(key).permutation(count)


def orthonormal_rows(rows, columns, key):
    """Normal numbers, made orthonormal row by row; rows <= columns."""
    q, r = torch.linalg.qr(normals(key, rows * columns).view(rows, columns).T)
    return (q * r.diagonal().sign()).T
