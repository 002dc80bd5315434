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


def log_even_shares(counts):
    """One more sample is spread over all classes."""
    return ((counts + 1 / len(counts)) / (counts.sum() + 1)).log()


def beside_shares(run, rows, w, sign):
    """With the logarithms of these rows' class shares at the biases that end a network, or without."""
    counts = torch.bincount(rows.y, minlength=run.classes).double()
    return torch.cat([w[:-run.classes], w[-run.classes:] + sign * log_even_shares(counts)])


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


class Unknown:
    """Before anything was measured."""

    def __init__(self, classes, p):
        self.pi, self.means, self.within = (torch.full((classes,), 1 / classes),
                                            torch.zeros(classes, p), torch.eye(p))


class Frozen:
    """What a client's networks say of its held-out rows before it trains on them."""

    def __init__(self, run, g, ft, loc, kept, held):
        self.logits = [None if w is None else run.network.logits(w, held.x) for w in (g, ft, loc)]
        self.features, self.y = run.network.features(g, held.x), held.y
        self.counts, self.sums = class_sums(run, g, kept)

    def experts(self, names, moments, k, ridge, balanced):
        g, ft, loc = self.logits
        pi, counts = moments.pi, self.counts
        log_own = lambda a: ((counts + a * pi) / (counts.sum() + a)).clamp_min(1e-12).log()
        shift = log_even_shares(counts) if balanced else log_own(1.0) - (pi + 1e-3).log()
        out = {"g": g, "pri": g + shift, "ft": ft, "loc": loc}
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


class Pool:
    """A federation of mosaic: its server, and rounds of those of its clients that are taken."""

    def __init__(self, run, options, clients):
        self.run, self.options, self.clients = run, options, clients
        self.names = options["experts"].split(",")
        count = len(self.names)
        self.g, self.moments, self.done = run.initial, None, 0
        self.temperature, self.beta = torch.ones(count), torch.full((count,), 1 / count)
        self.curvature, self.pull = torch.zeros(count, count), torch.zeros(count)

    def play(self, t, taken):
        run, options, names, g = self.run, self.options, self.names, self.g
        parts, loc, frozen = self.clients.parts, self.clients.loc, self.clients.frozen
        k, count, epochs = options["k"], len(names), run.train["epochs"]
        everybody = len(run.cohort(1)) == len(run.ids)
        balanced = options["balanced"] != "never" and not (options["balanced"] == "partial" and everybody)
        shares_at = lambda rows, w, sign: beside_shares(run, rows, w, sign) if balanced else w
        ridge = 0.0001 if options.get("ridge") == "none" else 0.1
        closing, fits = t == run.rounds, t > last_held(run, options)
        newton = fits and 2 <= self.done < 2 + options["newton"]
        needed = fits and (self.done <= 1 or newton) and not (closing and not newton)
        whole = {i: Rows(run.clients[i], range(run.clients[i].size)) for i in taken}
        uploads = {}
        for i, batches in taken.items():
            kept, held = parts[i]
            rows = whole[i] if fits else kept
            if needed and i not in frozen:
                ft = None
                if "ft" in names:
                    sgd = Sgd(run, t)
                    sgd.lr = max(sgd.lr, run.train["lr"] / 5)
                    start = g if options["balanced"] == "but not ft" else shares_at(kept, g, 1)
                    ft = trained(run, sgd, batches, kept, start, options["ft_times"] * epochs)
                frozen[i] = Frozen(run, g, ft, loc.get(i), kept, held)
                batches.read_all(kept.size), batches.read_all(held.size)
            if fits and (self.done == 0 or closing):
                batches.read_all(whole[i].size if closing else kept.size)
            if needed and self.done > 0:
                batches.read_all(held.size)
            if "loc" in names:
                loc[i] = trained(run, Sgd(run, t), batches, rows, loc.get(i, run.initial), epochs)
            if i in frozen and options.get("held") == "read after training on them":
                frozen[i].logits[2] = run.network.logits(loc[i], held.x)
            if not closing:
                after = trained(run, Sgd(run, t), batches, rows, shares_at(rows, g, 1), epochs)
                uploads[i] = shares_at(rows, after, -1)
        old = self.moments
        if fits and (self.done == 0 or closing):
            self.moments = Moments(run, g, [whole[i] if closing else parts[i][0] for i in taken],
                                   options["cov"] == "diag", "lda" in names)
        self.read = {i: frozen[i].experts(names, old, k, ridge, balanced) for i in taken
                     if needed and self.done > 0}
        if uploads:
            self.g = average(run, uploads)
        if not fits or closing or not needed:
            for i in taken:
                frozen.pop(i, None)
        return fits and (not closing or self.done == 0) and (self.done < 2 or newton)

    def round(self, t, taken):
        """Of a federation by itself."""
        labels = {i: self.clients.parts[i][1].y for i in taken}
        advance = self.play(t, taken)
        self.fit(t, self.read, labels)
        self.done += advance

    def fit(self, t, read, labels):
        """Temperatures or weights from what experts said of these clients' held-out rows."""
        run, options, count = self.run, self.options, len(self.names)
        closing, fits = t == run.rounds, t > last_held(run, options)
        if fits and self.done == 1 and not closing and options.get("temperature") != "1":
            losses = [sum(label_losses(log_shares(z, torch.full((count,), one)), labels[i])
                          for i, z in read.items()) for one in TEMPERATURES]
            self.temperature = torch.tensor(TEMPERATURES)[torch.stack(losses).argmin(0)]
        if fits and 2 <= self.done < 2 + options["newton"]:
            shares = [(log_shares(z, self.temperature), labels[i]) for i, z in read.items()]
            loss = lambda b: sum(pool_loss(s, y, b) for s, y in shares)
            slope = torch.autograd.functional.jacobian(loss, self.beta)
            hessian = torch.autograd.functional.hessian(loss, self.beta)
            memory = 1 - len(run.cohort(1)) / len(run.ids)
            self.curvature = memory * self.curvature + hessian
            self.pull = memory * self.pull + hessian @ self.beta - slope
            step = torch.linalg.solve(self.curvature + torch.eye(count), self.pull + 1 / count) - self.beta
            self.beta = self.beta + step / max(1.0, step.norm().item())

    def dump(self, prefix):
        return {f"server/{prefix}{name}": value for name, value in {
            "g.w": self.g, "moments.pi": self.moments.pi, "moments.means": self.moments.means,
            "moments.within": self.moments.within, "fit.beta": self.beta,
            "fit.curvature": self.curvature, "fit.pull": self.pull,
            "temperature": self.temperature}.items()}


class Clients:
    """What clients remember: (kept, held) rows, their own models, and what they froze."""

    def __init__(self, run, options):
        most = options.get("most_held", 0)
        share = lambda i: min(options["hold"], most / run.clients[i].size) if most else options["hold"]
        self.parts = {i: split(run, i, share(i)) for i in run.ids}
        self.loc, self.frozen = {}, {}

    def dump(self, names):
        out = {f"client/{i}/loc.w": w for i, w in self.loc.items()}
        for i, kept in self.frozen.items():
            blank = torch.full_like(kept.logits[0], math.nan)
            out |= {f"client/{i}/frozen.logits": torch.stack([blank if z is None else z
                                                              for z in kept.logits]),
                    f"client/{i}/frozen.own.counts": kept.counts}
            if "lda" in names:
                out |= {f"client/{i}/frozen.features": kept.features,
                        f"client/{i}/frozen.own.sums": kept.sums}
        return out


def last_held(run, options):
    return max(min(int(options["fit_at"] * run.rounds + 1e-9), run.rounds - 5), 1)


def mosaic(run, options):
    torch.set_default_dtype(torch.float64)
    clients = Clients(run, options)
    pool = Pool(run, options, clients)
    for t, taken in rounds_of(run):
        pool.round(t, taken)
    torch.set_default_dtype(torch.float32)
    out = pool.dump("") | clients.dump(pool.names)
    return {name: value for name, value in out.items() if value.numel() > 0}


def far_apart(shifts, sizes, moments):
    """Distances of clients by their shifts, in units of those between classes, less chance."""
    p = len(moments.within)
    w = 0.9 * moments.within + 0.1 * moments.within.trace() / p * torch.eye(p)
    square = lambda d: (d @ torch.linalg.solve(w, d)).item()
    classes = [c for c in range(len(moments.pi)) if moments.pi[c] > 0]
    unit = [square(moments.means[a] - moments.means[b]) for a in classes for b in classes if a != b]
    unit = sum(unit) / len(unit)
    return {(a, b): max(0.0, square(shifts[a] - shifts[b]) - p * (1 / sizes[a] + 1 / sizes[b])) / unit
            for a in shifts for b in shifts if a != b}


def grouped(distance, ids, apart, least):
    """Sets of ids: the two nearest on average are joined while nearer than `apart`, then small ones."""
    mean = lambda a, b: sum(distance[i, j] for i in a for j in b) / (len(a) * len(b))
    groups = [{i} for i in ids]
    while len(groups) > 1:
        pairs = [(mean(groups[a], groups[b]), a, b) for a in range(len(groups)) for b in range(a)]
        nearest = min(far for far, _, _ in pairs)
        if nearest >= apart:
            break
        # Of equals the one that comes first, from the view of the first.
        a, b = min((min(a, b), max(a, b)) for far, a, b in pairs if far == nearest)
        groups[a] |= groups.pop(b)
    while len(groups) > 1 and any(len(g) < least for g in groups):
        lone = next(g for g in groups if len(g) < least)
        others = [g for g in groups if g is not lone]
        near = min(others, key=lambda g: mean(lone, g))
        at = min(groups.index(lone), groups.index(near))
        groups = [g for g in groups if g is not lone and g is not near]
        groups.insert(at, lone | near)
    return sorted((sorted(g) for g in groups), key=lambda g: g[0])


def mosaic_groups(run, options):
    torch.set_default_dtype(torch.float64)
    clients = Clients(run, options)
    whole, groups, member, more = Pool(run, options, clients), [], {}, {}
    at = min(max(int(options["split_at"] * run.rounds), 2), last_held(run, options))
    for t, taken in rounds_of(run):
        if t == at:
            kept = {i: clients.parts[i][0] for i in taken}
            for i, batches in taken.items():
                batches.read_all(kept[i].size)
            measured = whole.g
            moments = Moments(run, measured, kept.values(), False, True)
            sums = {i: class_sums(run, whole.g, kept[i]) for i in taken}
            shifts = {i: (s - n[:, None] * moments.means).sum(0) / n.sum() for i, (n, s) in sums.items()}
        labels, read = {i: clients.parts[i][1].y for i in taken}, {}
        for pool in groups or [whole]:
            advance = pool.play(t, {i: taken[i] for i in taken if not groups or member[i] is pool})
            read |= pool.read
        whole.fit(t, read, labels)  # common to all
        for pool in {id(p): p for p in [whole, *groups]}.values():
            pool.beta, pool.temperature = whole.beta, whole.temperature
            pool.curvature, pool.pull = whole.curvature, whole.pull
            pool.done += advance
        if t != at:
            continue
        sizes = {i: kept[i].size for i in taken}
        found = grouped(far_apart(shifts, sizes, moments), list(taken), options["apart"], options["least"])
        for number, ids in enumerate(found if len(found) > 1 else []):
            groups.append(Pool(run, options, clients))
            groups[-1].g = whole.g
            weight = {i: 1 if options.get("centre") == "of equals" else sizes[i] for i in ids}
            more[f"server/groups@{number}.centre"] = (
                sum(weight[i] * shifts[i] for i in ids) / sum(weight.values()))
            member |= {i: groups[-1] for i in ids}
    more |= {"server/measured.w": measured, "server/at_split.pi": moments.pi,
             "server/at_split.means": moments.means, "server/at_split.within": moments.within}
    whole.moments = Unknown(run.classes, len(moments.within))
    torch.set_default_dtype(torch.float32)
    out = clients.dump(whole.names) | whole.dump("whole.") | more
    for number, pool in enumerate(groups):
        out |= pool.dump(f"groups@{number}.pool.")
    return {name: value for name, value in out.items() if value.numel() > 0}
