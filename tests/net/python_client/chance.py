"""Random numbers by key (docs/protocol.md, "Random numbers")."""
MOST = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def mix(x):
    x = x + STEP & MOST
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MOST
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MOST
    return x ^ x >> 31


def derive(key, *parts):
    for part in parts:
        key = mix(key ^ mix(part))
    return key


class Stream:
    def __init__(self, key):
        self.key, self.count = mix(key), 0

    def next(self):
        self.count += 1
        return mix(self.key + self.count * STEP & MOST)

    def below(self, n):
        draw = self.next()
        while draw >= MOST - MOST % n:
            draw = self.next()
        return draw % n

    def shuffled(self, items):
        out = list(items)
        for i in range(len(out), 1, -1):
            j = self.below(i)
            out[i - 1], out[j] = out[j], out[i - 1]
        return out
