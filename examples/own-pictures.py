# own-pictures.py: writes own-pictures/client-N.npz
import os
import numpy as np

rng = np.random.default_rng(1)
os.makedirs("own-pictures", exist_ok=True)
row, column = np.mgrid[0:16, 0:16]
for camera in range(1, 5):
    pictures, shapes = [], []
    for _ in range(300):
        shape, (r, c), size = rng.choice(["circle", "cross", "square"]), rng.uniform(6, 10, 2), rng.uniform(3, 5)
        dr, dc = np.abs(row - r), np.abs(column - c)
        ink = {"circle": dr**2 + dc**2 < size**2, "square": np.maximum(dr, dc) < 0.85 * size,
               "cross": (np.minimum(dr, dc) < 1.2) & (np.maximum(dr, dc) < size)}[shape]
        light = 40 * camera + 80 * ink + rng.normal(0, 15, (16, 16))
        pictures.append(np.clip(light if camera % 2 else 255 - light, 0, 255).astype(np.uint8))
        shapes.append(shape)
    np.savez(f"own-pictures/client-{camera}.npz", x=np.array(pictures)[:, None], y=np.array(shapes))
