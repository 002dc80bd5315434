"""The methods once more, from the specification's pseudo-code and nothing else.

Each takes a dump and the method's options and returns the parameters that the program must end
with, by their names in its final state.
"""
import torch

from dump import Mismatch


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


def fedper(run, options):
    body, head = run.network.body, run.network.head
    base = run.initial[body]
    heads = {i: run.initial[head] for i in range(len(run.clients))}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w = epochs_of_sgd(run, t, batches, torch.cat([base, heads[i]]))
            uploads[i], heads[i] = w[body], w[head]
        base = average(run, uploads)
    return {"server/base.w": base} | {f"client/{i}/head": h for i, h in heads.items()}


def fedbabu(run, options):
    """The head is the program's own random one; that it is orthogonal is checked, then it must
    never move."""
    body, head = run.network.body, run.network.head
    g = run.start["server/g.w"].double()
    def body_only(w, gradient):
        gradient = gradient.clone()
        gradient[head] = 0
        return gradient

    for t, taken in rounds_of(run):
        g = average(run, {i: epochs_of_sgd(run, t, b, g, body_only) for i, b in taken.items()})
    return {"server/g.w": g}


def ditto(run, options):
    g = run.initial
    personal = {i: run.initial for i in range(len(run.clients))}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            uploads[i] = epochs_of_sgd(run, t, batches, g)
            pull = lambda v, gradient: gradient + options["lambda"] * (v - g)
            personal[i] = epochs_of_sgd(run, t, batches, personal[i], pull)
        g = average(run, uploads)
    return {"server/g.w": g} | {f"client/{i}/v.w": v for i, v in personal.items()}


def pfedme(run, options):
    lam, eta, eta_p = options["lambda"], options["eta"], options["eta_p"]
    g = run.initial
    thetas = {i: run.initial for i in range(len(run.clients))}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w = theta = g
            for _ in range(options["R"]):
                batch = batches.next()
                for _ in range(options["K"]):
                    theta = theta - eta_p * (run.network.gradient(theta, batch) +
                                             lam * (theta - w))
                w = w - eta * lam * (w - theta)
            uploads[i], thetas[i] = w, theta
        g = (1 - options["beta"]) * g + options["beta"] * average(run, uploads)
    return {"server/g.w": g} | {f"client/{i}/theta.w": v for i, v in thetas.items()}


def apfl(run, options):
    lr = run.train["lr"]
    g = run.initial
    personal = {i: run.initial for i in range(len(run.clients))}
    shares = {i: torch.tensor(options["alpha0"]).double() for i in range(len(run.clients))}
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w, v, a = g, personal[i], shares[i]
            for step, batch in enumerate(batches.epochs(run.train["epochs"])):
                w = w - lr * run.network.gradient(w, batch)
                at_mixture = run.network.gradient(a * v + (1 - a) * w, batch)
                v_before, v = v, v - lr * a * at_mixture
                if step == 0:
                    a = torch.clamp(a - lr * torch.dot(v_before - w, at_mixture), 0, 1)
            uploads[i], personal[i], shares[i] = w, v, a
        g = average(run, uploads)
    return ({"server/g.w": g} | {f"client/{i}/v.w": v for i, v in personal.items()} |
            {f"client/{i}/a": a for i, a in shares.items()})


def fedamp(run, options):
    """HeurFedAMP."""
    models = {i: run.initial for i in range(len(run.clients))}
    for t, taken in rounds_of(run):
        received = {i: mixture(models, list(taken), i, options) for i in taken}
        for i, batches in taken.items():
            u = received[i]
            pull = lambda w, gradient: gradient + options["prox"] * (w - u)
            models[i] = epochs_of_sgd(run, t, batches, u, pull)
    return {f"client/{i}/w.w": w for i, w in models.items()}


def mixture(models, cohort, i, options):
    """u_i: x0 of its own model, the rest by a softmax over the cosines of centred models."""
    own_share = options["x0"] or 1 / len(cohort)
    centre = sum(models[j] for j in cohort) / len(cohort)
    others = [j for j in cohort if j != i]
    cosine = torch.nn.functional.cosine_similarity
    cosines = torch.stack([cosine(models[i] - centre, models[j] - centre, dim=0) for j in others])
    shares = (1 - own_share) * torch.softmax(options["s"] * cosines, 0)
    return own_share * models[i] + sum(s * models[j] for s, j in zip(shares, others))


def peravg(run, options):
    """A step takes two batches (fo) or three (hf)."""
    alpha, beta, exact = options["alpha"], options["beta"], options["mode"] == "hf"
    g = run.initial
    for t, taken in rounds_of(run):
        uploads = {}
        for i, batches in taken.items():
            w = g
            while batches.left() > 0:
                d = run.network.gradient(
                    w - alpha * run.network.gradient(w, batches.next()), batches.next())
                if exact:
                    d = d - alpha * hessian_times(run, w, d, batches.next())
                w = w - beta * d
            uploads[i] = w
        g = average(run, uploads)
    return {"server/g.w": g}


def hessian_times(run, w, d, batch):
    """By central differences."""
    delta = 1e-3 / (d.norm() + 1e-12)
    return (run.network.gradient(w + delta * d, batch) -
            run.network.gradient(w - delta * d, batch)) / (2 * delta)


METHODS = {f.__name__: f
           for f in (fedavg, fedper, fedbabu, ditto, pfedme, apfl, fedamp, peravg)}
