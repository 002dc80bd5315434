"""Mosaic (docs/methods.md §12.2) once more. Slopes of the pool come from autograd here."""
import math

import torch

from methods import Sgd, average, rounds_of
from random_numbers import Stream, derive

TEMPERATURES = [2.0 ** (i / 3) for i in range(-12, 13)]


class Rows:
    """Some of a client's rows, in their order."""

    def __init__(self, client, positions):
        x, y = client.all()
        self.x, self.y, self.size = x[positions], y[positions], len(positions)

    def rows(self, positions):
        return self.x[positions], self.y[positions]


def split(run, i, share):
    """(kept, held): the classes one after the other, each shuffled; every 1/share-th is held."""
    y = run.clients[i].all()[1]
    stream = Stream(derive(run.seed, 1, 7, i, 1))
    line = sorted(stream.permutation(len(y)), key=lambda position: y[position])
    due, held = stream.uniform(), set()
    for position in line:
        due += share
        if due >= 1:
            held.add(position)
        due -= math.floor(due)
    return [Rows(run.clients[i], [p for p in range(len(y)) if (p in held) == wanted])
            for wanted in (False, True)]


def trained(run, sgd, batches, rows, w, epochs):
    batches.client = rows
    for batch in batches.epochs(epochs):
        w = sgd.step(w, run.network.gradient(w, batch))
    return w


def class_sums(run, g, rows):
    member = torch.nn.functional.one_hot(rows.y, run.classes).double()
    return member.sum(0), member.T @ run.network.features(g, rows.x)


class Moments:
    """Class shares, class means and the covariance within classes, of clients' rows together."""

    def __init__(self, run, g, parts, diagonal, lda):
        x = torch.cat([run.network.features(g, rows.x) for rows in parts])
        y = torch.cat([rows.y for rows in parts])
        if not lda:
            x = x[:, :0]
        counts = torch.bincount(y, minlength=run.classes)
        self.pi = counts / len(y)
        self.means = torch.stack([x[y == c].mean(0) if counts[c] else x.mean(0)
                                  for c in range(run.classes)])
        apart = x - self.means[y]
        self.within = apart.T @ apart / len(y)
        if diagonal:
            self.within = self.within.diagonal()


class Frozen:
    """What a client's networks say of its held-out rows before it trains on them."""

    def __init__(self, run, g, ft, loc, kept, held):
        self.logits = [None if w is None else run.network.logits(w, held.x) for w in (g, ft, loc)]
        self.features, self.y = run.network.features(g, held.x), held.y
        self.counts, self.sums = class_sums(run, g, kept)

    def experts(self, names, moments, k, ridge):
        g, ft, loc = self.logits
        pi, counts = moments.pi, self.counts
        log_own = lambda a: ((counts + a * pi) / (counts.sum() + a)).clamp_min(1e-12).log()
        out = {"g": g, "pri": g + log_own(1.0) - (pi + 1e-3).log(), "ft": ft, "loc": loc}
        if "lda" in names:
            means = (self.sums + k * moments.means) / (counts + k)[:, None]
            spread = moments.within.diagonal().mean()
            w = (1 - ridge) * moments.within + ridge * spread * torch.eye(len(moments.within))
            slope = torch.linalg.solve(w, means.T)
            out["lda"] = self.features @ slope - (means * slope.T).sum(1) / 2 + log_own(0.5)
        return torch.stack([out[name] for name in names])


def log_shares(logits, temperature):
    p = torch.softmax(logits / temperature[:, None, None], -1)
    return (p * (1 - 1e-6) + 1e-6 / logits.shape[-1]).log()


def label_losses(shares, y):
    """By expert."""
    return -shares[:, range(len(y)), y].sum(1)


def pool_loss(shares, y, beta):
    return torch.nn.functional.cross_entropy((shares * beta[:, None, None]).sum(0), y,
                                             reduction="sum")


def mosaic(run, options):
    torch.set_default_dtype(torch.float64)
    names, k = options["experts"].split(","), options["k"]
    ridge = 0.0001 if options.get("ridge") == "none" else 0.1
    diagonal = options["cov"] == "diag"
    count, epochs = len(names), run.train["epochs"]
    last = max(min(int(options["fit_at"] * run.rounds + 1e-9), run.rounds - 5), 1)
    parts = {i: split(run, i, options["hold"]) for i in run.ids}
    g, loc, frozen, moments, done = run.initial, {}, {}, None, 0
    temperature, beta = torch.ones(count), torch.full((count,), 1 / count)
    curvature, pull = torch.zeros(count, count), torch.zeros(count)
    memory = 1 - len(run.cohort(1)) / len(run.ids)
    for t, taken in rounds_of(run):
        closing, fits = t == run.rounds, t > last
        newton = fits and 2 <= done < 2 + options["newton"]
        needed = fits and (done <= 1 or newton) and not (closing and not newton)
        whole = {i: Rows(run.clients[i], range(run.clients[i].size)) for i in taken}
        uploads, before = {}, g
        for i, batches in taken.items():
            kept, held = parts[i]
            rows = whole[i] if fits else kept
            if needed and i not in frozen:
                ft = None
                if "ft" in names:
                    sgd = Sgd(run, t)
                    sgd.lr = max(sgd.lr, run.train["lr"] / 5)
                    ft = trained(run, sgd, batches, kept, g, options["ft_times"] * epochs)
                frozen[i] = Frozen(run, g, ft, loc.get(i), kept, held)
                batches.read_all(kept.size), batches.read_all(held.size)
            if fits and (done == 0 or closing):
                batches.read_all(whole[i].size if closing else kept.size)
            if needed and done > 0:
                batches.read_all(held.size)
            if "loc" in names:
                loc[i] = trained(run, Sgd(run, t), batches, rows, loc.get(i, run.initial), epochs)
            if i in frozen and options.get("held") == "read after training on them":
                frozen[i].logits[2] = run.network.logits(loc[i], held.x)
            if not closing:
                uploads[i] = trained(run, Sgd(run, t), batches, rows, g, epochs)
        old = moments
        if fits and (done == 0 or closing):
            moments = Moments(run, before, [whole[i] if closing else parts[i][0] for i in taken],
                              diagonal, "lda" in names)
        read = lambda i: frozen[i].experts(names, old, k, ridge)
        if fits and done == 1 and not closing and options.get("temperature") != "1":
            losses = [sum(label_losses(log_shares(read(i), torch.full((count,), one)), frozen[i].y)
                          for i in taken) for one in TEMPERATURES]
            temperature = torch.tensor(TEMPERATURES)[torch.stack(losses).argmin(0)]
        if newton:
            shares = [(log_shares(read(i), temperature), frozen[i].y) for i in taken]
            loss = lambda b: sum(pool_loss(s, y, b) for s, y in shares)
            slope = torch.autograd.functional.jacobian(loss, beta)
            hessian = torch.autograd.functional.hessian(loss, beta)
            curvature = memory * curvature + hessian
            pull = memory * pull + hessian @ beta - slope
            step = torch.linalg.solve(curvature + torch.eye(count), pull + 1 / count) - beta
            beta = beta + step / max(1.0, step.norm().item())
        if uploads:
            g = average(run, uploads)
        if not fits or closing or not needed:
            for i in taken:
                frozen.pop(i, None)
        done += fits and (not closing or done == 0) and (done < 2 or newton)
    torch.set_default_dtype(torch.float32)
    out = {"server/g.w": g, "server/moments.pi": moments.pi, "server/moments.means": moments.means,
           "server/moments.within": moments.within, "server/fit.beta": beta,
           "server/fit.curvature": curvature, "server/fit.pull": pull,
           "server/temperature": temperature}
    out |= {f"client/{i}/loc.w": w for i, w in loc.items()}
    for i, kept in frozen.items():
        blank = torch.full_like(kept.logits[0], math.nan)
        out |= {f"client/{i}/frozen.logits": torch.stack([blank if z is None else z
                                                          for z in kept.logits]),
                f"client/{i}/frozen.own.counts": kept.counts}
        if "lda" in names:
            out |= {f"client/{i}/frozen.features": kept.features,
                    f"client/{i}/frozen.own.sums": kept.sums}
    return {name: value for name, value in out.items() if value.numel() > 0}
