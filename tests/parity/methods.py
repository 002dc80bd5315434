"""The methods once more, from the specification's pseudo-code and nothing else.

Each takes a dump and the method's options and returns the parameters that the program must end
with, by their names in its final state. What `options.get` asks for is no option of the program:
it is a known mistake, made on purpose (cases.py).
"""
import torch

from dump import Mismatch
from random_numbers import derive, orthonormal_rows


class Sgd:
    """Made anew for every client and round: momentum of other parameters is a silent bug."""

    def __init__(self, run, round_, lr=None):
        train = run.train
        if train["optimizer"] != "sgd":
            raise Mismatch("this reference knows only sgd")
        decay = train["lr_decay"] ** (round_ - 1)
        self.lr = (train["lr"] if lr is None else lr) * decay
        self.momentum, self.weight_decay = train["momentum"], train["weight_decay"]
        self.velocity = None

    def step(self, w, gradient):
        gradient = gradient + self.weight_decay * w
        self.velocity = (gradient if self.velocity is None
                         else self.momentum * self.velocity + gradient)
        return w - self.lr * self.velocity


def average(run, uploads):
    """Weighted by the clients' numbers of training samples, over those that took part."""
    total = sum(run.clients[i].size for i in uploads)
    return sum(run.clients[i].size / total * w for i, w in uploads.items())


def epochs_of_sgd(run, round_, batches, w, change=lambda w, gradient: gradient):
    """The client's epochs from w; `change` is what the method does to the gradient."""
    sgd = Sgd(run, round_)
    for batch in batches.epochs(run.train["epochs"]):
        w = sgd.step(w, change(w, run.network.gradient(w, batch)))
    return w


def rounds_of(run):
    """(round, {client: its batches}); every batch must have been used when the next one begins."""
    for t in range(1, run.rounds + 1):
        taken = {i: run.batches(t, i) for i in run.cohort(t)}
        yield t, taken
        for batches in taken.values():
            batches.finish()


def fedavg(run, options):
    g = run.initial
    for t, taken in rounds_of(run):
        g = average(run, {i: epochs_of_sgd(run, t, b, g) for i, b in taken.items()})
    return {"server/g.w": g}


def prior(run, options):
    """FedAvg, and a count of the cohorts' samples by class."""
    g, counts = run.initial, 0
    for t, taken in rounds_of(run):
        g = average(run, {i: epochs_of_sgd(run, t, b, g) for i, b in taken.items()})
        seen = list(taken) if options.get("counted") != "everybody" else run.ids
        labels = torch.cat([run.clients[i].all()[1] for i in seen])
        counts = counts + torch.bincount(labels, minlength=run.classes).double()
    return {"server/g.w": g, "server/counts": counts}


def fedper(run, options):
    body, head = run.network.body, run.network.head
    base = run.initial[body]
    heads = {i: run.initial[head] for i in run.ids}
    seen = set()
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w = epochs_of_sgd(run, t, batches, torch.cat([base, heads[i]]))
            uploads[i], heads[i] = w[body], w[head]
        base = average(run, uploads)
        seen = set(taken) | (seen if options.get("mean_over") == "all" else set())
    mean = {"server/mean_head": average(run, {i: heads[i] for i in seen})}
    return ({"server/base.w": base} | {f"client/{i}/head": h for i, h in heads.items()} |
            (mean if options["head"] == "mean" else {}))


def fedbabu(run, options):
    """The head has orthonormal rows drawn from the key, the same for everybody; it never moves."""
    body, head = run.network.body, run.network.head
    g = torch.cat([run.initial[body], babu_head(run)])

    def frozen(w, gradient):
        gradient[head] *= 1.0 if options.get("head") == "trained" else 0.0
        return gradient

    for t, taken in rounds_of(run):
        g = average(run, {i: epochs_of_sgd(run, t, b, g, frozen) for i, b in taken.items()})
    return {"server/body.w": g[body]}


def babu_head(run):
    """The initial model's head with other weights; its bias stays."""
    head = run.initial[run.network.head].clone()
    width = (len(head) - run.classes) // run.classes
    rows = orthonormal_rows(run.classes, width, derive(run.seed, 1, 1, 1))
    head[:rows.numel()] = rows.flatten()
    return head


def fedbabu_personal(run, options, i, end):
    w = torch.cat([end["server/body.w"], babu_head(run)])
    for _ in range(options["ft_epochs"]):
        w = w - run.train["lr"] * run.network.gradient(w, run.clients[i].all())
    return w


def ditto(run, options):
    lam, epochs = options["lambda"], options["personal_epochs"] or run.train["epochs"]
    g = run.initial
    personal = {i: run.initial for i in run.ids}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            uploads[i] = epochs_of_sgd(run, t, batches, g)
            sgd, v = Sgd(run, t, options["personal_lr"] or None), personal[i]
            target = uploads[i] if options.get("target") == "trained w" else g
            for batch in batches.epochs(epochs):
                v = sgd.step(v, run.network.gradient(v, batch) + lam * (v - target))
            personal[i] = v
        g = average(run, uploads)
    return {"server/g.w": g} | {f"client/{i}/v.w": v for i, v in personal.items()}


def equal(run, uploads):
    """Everybody counts the same."""
    return sum(uploads.values()) / len(uploads)


def scaffold(run, options):
    g, c = run.initial, torch.zeros_like(run.initial)
    own = {i: torch.zeros_like(g) for i in run.ids}
    for t, taken in rounds_of(run):
        uploads, changes = {}, {}
        for i, batches in taken.items():
            steps = 0

            def corrected(w, gradient):
                nonlocal steps
                steps += 1
                return gradient - own[i] + c

            uploads[i] = epochs_of_sgd(run, t, batches, g, corrected)
            lr = run.train["lr"] * run.train["lr_decay"] ** (t - 1)
            control = own[i] if options.get("option") == "without c" else own[i] - c
            after = control + (g - uploads[i]) / (steps * lr)
            changes[i], own[i] = after - own[i], after
        g = (1 - options["server_lr"]) * g + options["server_lr"] * equal(run, uploads)
        everybody = len(taken) if options.get("N") == "the cohort" else len(run.ids)
        c = c + sum(changes.values()) / everybody
    return ({"server/g.w": g, "server/c": c} |
            {f"client/{i}/c": v for i, v in own.items()})


def feddyn(run, options):
    alpha, g = options["alpha"], run.initial
    h = torch.zeros_like(g)
    slopes = {i: torch.zeros_like(g) for i in run.ids}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            uploads[i] = epochs_of_sgd(
                run, t, batches, g,
                lambda w, gradient: gradient - slopes[i] + alpha * (w - g))
            slopes[i] = slopes[i] - alpha * (uploads[i] - g)
        everybody = len(taken) if options.get("N") == "the cohort" else len(run.ids)
        h = h - alpha / everybody * sum(w - g for w in uploads.values())
        g = equal(run, uploads) - h / alpha
    return ({"server/g.w": g, "server/h": h} |
            {f"client/{i}/slope": v for i, v in slopes.items()})


def fedopt(run, options):
    eta, b1, b2, tau = (options[k] for k in ("eta", "beta1", "beta2", "tau"))
    g, rule = run.initial, options["rule"]
    m, v = torch.zeros_like(g), torch.full_like(g, tau * tau)
    for t, taken in rounds_of(run):
        change = average(run, {i: epochs_of_sgd(run, t, b, g) for i, b in taken.items()}) - g
        if rule == "momentum":
            m = b1 * m + change
            g = g + eta * m
            continue
        m = b1 * m + (1 - b1) * change
        square = change ** 2
        v = {"adam": b2 * v + (1 - b2) * square, "adagrad": v + square,
             "yogi": v - (1 - b2) * square * torch.sign(v - square)}[rule]
        g = g + eta * m / (v.sqrt() + tau)
    return {"server/g.w": g, "server/m": m} | ({} if rule == "momentum" else {"server/v": v})


def ifca(run, options):
    models = [run.start[f"server/models.{k}.w"].double() for k in range(options["clusters"])]
    for t, taken in rounds_of(run):
        chosen = {}
        for i, batches in taken.items():
            for _ in models:
                batches.read_all(run.clients[i].size)
            losses = [run.network.loss(w, run.clients[i].all()) for w in models]
            best = max if options.get("choice") == "the worst" else min
            k = losses.index(best(losses))
            chosen.setdefault(k, {})[i] = epochs_of_sgd(run, t, batches, models[k])
        for k, uploads in chosen.items():
            models[k] = average(run, uploads)
    return {f"server/models.{k}.w": w for k, w in enumerate(models)}


def pfedme(run, options):
    lam, eta, eta_p = options["lambda"], options["eta"], options["eta_p"]
    g = run.initial
    thetas = {i: run.initial for i in run.ids}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w = theta = g
            for _ in range(options["R"]):
                batch = batches.next()
                theta = w if options.get("theta") == "restarted" else theta
                for _ in range(options["K"]):
                    theta = theta - eta_p * (run.network.gradient(theta, batch) +
                                             lam * (theta - w))
                w = w - eta * lam * (w - theta)
            uploads[i], thetas[i] = w, theta
        g = (1 - options["beta"]) * g + options["beta"] * average(run, uploads)
    return {"server/g.w": g} | {f"client/{i}/theta.w": v for i, v in thetas.items()}


def apfl(run, options):
    lr, eta_a = run.train["lr"], options["eta_a"] or run.train["lr"]
    g = run.initial
    personal = {i: run.initial for i in run.ids}
    shares = {i: torch.tensor(options["alpha0"]).double() for i in run.ids}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w, v, a = g, personal[i], shares[i]
            for step, batch in enumerate(batches.epochs(run.train["epochs"])):
                w = w - lr * run.network.gradient(w, batch)
                mixture = v if options.get("gradient") == "at v" else a * v + (1 - a) * w
                gradient = run.network.gradient(mixture, batch)
                slope = torch.dot(v - w, gradient)  # by a, at the point where `gradient` was taken
                v = v - lr * a * gradient
                if step == 0:
                    a = torch.clamp(a - eta_a * slope, 0, 1)
            uploads[i], personal[i], shares[i] = w, v, a
        g = average(run, uploads)
    return ({"server/g.w": g} | {f"client/{i}/v.w": v for i, v in personal.items()} |
            {f"client/{i}/alpha": a for i, a in shares.items()})


def fedamp(run, options):
    """HeurFedAMP. Participants who trained before are mixed; others join as new clients do, from
    the mean of all models (docs/methods.md)."""
    models, common = {}, run.initial
    for t, taken in rounds_of(run):
        circle = [i for i in taken if i in models]
        received = {i: amp_mixture(models, circle, i, options) if i in circle else common
                    for i in taken}
        for i, batches in taken.items():
            u = received[i]
            models[i] = epochs_of_sgd(
                run, t, batches, u, lambda w, gradient: gradient + options["prox"] * (w - u))
        common = sum(models.values()) / len(models)
    return ({f"server/latest@{i}.w": w for i, w in models.items()} |
            {f"client/{i}/w.w": w for i, w in models.items()})


def fedacs(run, options):
    """Who joins as in fedamp; then a plain local training from u_i."""
    models, common = {}, run.initial
    for t, taken in rounds_of(run):
        circle = sorted(i for i in taken if i in models)
        received = {i: acs_mixture(models, circle, i, options) if i in circle else common
                    for i in taken}
        for i, batches in taken.items():
            models[i] = epochs_of_sgd(run, t, batches, received[i])
        common = sum(models.values()) / len(models)
    return {f"server/latest@{i}.w": w for i, w in models.items()}


def acs_mixture(models, circle, i, options):
    """(1 - alpha) w_i + alpha times the mean of the similar models, weighted by their cosines."""
    s = {(j, k): torch.nn.functional.cosine_similarity(models[j], models[k], dim=0)
         for j in circle for k in circle if j != k}
    if not s:
        return models[i]
    threshold = torch.quantile(torch.stack([s[j, k] for j, k in s if j < k]), options["p"])
    weights = {j: s[i, j] for j in circle
               if j != i and s[i, j] >= threshold - 1e-7 and s[i, j] > 0}
    weights[i] = 1.0
    mixed = sum(v * models[j] for j, v in weights.items()) / sum(weights.values())
    return models[i] + options["alpha"] * (mixed - models[i])


def amp_mixture(models, circle, i, options):
    """u_i: x0 of its own model, the rest by a softmax over the cosines of centred models."""
    others = [j for j in circle if j != i]
    if not others:
        return models[i]
    own_share = options["x0"] or 1 / len(circle)
    centre = sum(models[j] for j in circle) / len(circle)
    cosine = torch.nn.functional.cosine_similarity
    cosines = torch.stack([cosine(models[i] - centre, models[j] - centre, dim=0) for j in others])
    shares = (1 - own_share) * torch.softmax(options["s"] * cosines, 0)
    return own_share * models[i] + sum(s * models[j] for s, j in zip(shares, others))


def peravg(run, options):
    """A step takes two batches (fo) or three (hf), disjoint where the client has enough samples."""
    alpha, beta = options["alpha"], options["beta"] or run.train["lr"]
    second_order = options["mode"] == "hf"
    g = run.initial
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w = g
            while batches.left() > 0:
                batches.check_disjoint(3 if second_order else 2)
                adapted = w - alpha * run.network.gradient(w, batches.next())
                d = run.network.gradient(adapted, batches.next())
                if second_order:
                    curvature = hessian_times(run, w, d, batches.next())
                    d = d - (0 if options.get("curvature") == "dropped" else alpha) * curvature
                w = w - beta * d
            uploads[i] = w
        g = average(run, uploads)
    return {"server/g.w": g}


def hessian_times(run, w, d, batch):
    """By central differences."""
    delta = 1e-3 / (d.norm() + 1e-12)
    return (run.network.gradient(w + delta * d, batch) -
            run.network.gradient(w - delta * d, batch)) / (2 * delta)


def peravg_personal(run, options, i, end):
    g = end["server/g.w"]
    return g - options["alpha"] * run.network.gradient(g, run.clients[i].all())


METHODS = {f.__name__: f
           for f in (fedavg, scaffold, fedopt, feddyn, ifca, prior, fedper, fedbabu, ditto, pfedme, apfl, fedamp, fedacs, peravg)}
# What an evaluation makes of the final state, where that takes training of its own.
PERSONAL = {"fedbabu": fedbabu_personal, "peravg": peravg_personal}
