# own-series.py: writes own-series.npz, one file for all
import numpy as np

rng = np.random.default_rng(1)
windows, motions, people = [], [], []
for person in range(1, 6):
    pace, strength, motion = rng.uniform(0.8, 1.2), rng.uniform(0.7, 1.4), 0
    for window in range(240):
        if rng.random() < 0.2:
            motion = rng.integers(3)          # people go on with what they do
        time = np.arange(32) / 32 * (0, 2, 5)[motion] * pace + rng.random()
        wave = np.sin(2 * np.pi * (time[:, None] + [0, 0.25, 0.5])) * (motion > 0)
        windows.append(9.8 * np.array([0, 0, 1]) + strength * wave + rng.normal(0, 1, (32, 3)))
        motions.append(("rest", "walk", "run")[motion])
        people.append(f"person {person}")
np.savez("own-series.npz", x=np.array(windows, np.float32), y=np.array(motions), person=np.array(people))
