"""The program's random numbers, from docs/formats.md."""
import math

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


def normals(key, count):
    """The first `count` of a stream: Box–Muller, cosine branch, two draws a number."""
    state = mix(key)

    def uniform(n):
        return (mix((state + GOLDEN * n) & WORD) >> 11) * 2.0 ** -53

    return torch.tensor([math.sqrt(-2 * math.log(1 - uniform(2 * i + 1))) *
                         math.cos(2 * math.pi * uniform(2 * i + 2)) for i in range(count)],
                        dtype=torch.float64)


def orthonormal_rows(rows, columns, key):
    """Normal numbers, made orthonormal row by row; rows <= columns."""
    q, r = torch.linalg.qr(normals(key, rows * columns).view(rows, columns).T)
    return (q * r.diagonal().sign()).T
