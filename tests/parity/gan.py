"""The federated GAN of docs/methods.md §7.6 on FedAvg, once more.

The order of the GAN's batches is in the dump. What is drawn besides (z, classes and order of made
pictures, noise) follows from the client's key of the round as docs/formats.md says.
"""
import math

import torch
import torch.nn.functional as F

from methods import average, epochs_of_sgd, rounds_of
from random_numbers import derive, normals, permutation, uniforms

LOCAL, LEARN, MADE = 4, 21, 22  # of the seed; of a client's key
PARTNER, NOISE, GENERATOR = 1, 2, 3  # of a step's key
CLASSES, PICTURES, ORDER = 1, 2, 3  # of the key of made pictures
Z, CODE = 64, 16


class Flat:
    """Tensors of a flat vector, by their shapes in order."""

    def parts(self, w):
        pieces = w.split([math.prod(shape) for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes)]


class Generator(Flat):
    def __init__(self, sample, classes):
        self.sample, pixels = sample, math.prod(sample)
        self.shapes = [(classes, CODE), (256, Z + CODE), (256,), (512, 256), (512,),
                       (pixels, 512), (pixels,)]

    def __call__(self, w, z, y):
        code, w1, b1, w2, b2, w3, b3 = self.parts(w)
        h = F.relu(F.linear(torch.cat([z, code[y]], 1), w1, b1))
        h = F.relu(F.linear(h, w2, b2))
        return torch.sigmoid(F.linear(h, w3, b3)).view(-1, *self.sample)


class Discriminator(Flat):
    def __init__(self, sample, classes):
        channels, height, width = sample
        features = 64 * (height // 4) * (width // 4)
        self.shapes = [(32, channels, 4, 4), (32,), (64, 32, 4, 4), (64,), (classes, CODE),
                       (features, CODE), (features,), (1,)]

    def __call__(self, w, x, y):
        w1, b1, w2, b2, code, projection, linear, bias = self.parts(w)
        h = F.leaky_relu(F.conv2d(2 * x - 1, w1, b1, stride=2, padding=1), 0.2)
        h = F.leaky_relu(F.conv2d(h, w2, b2, stride=2, padding=1), 0.2).flatten(1)
        return h @ linear + (h * (code[y] @ projection.T)).sum(1) + bias


class Adam:
    def __init__(self, lr, beta1):
        self.lr, self.beta1, self.beta2, self.steps = lr, beta1, 0.999, 0
        self.first = self.second = 0.0

    def step(self, w, gradient):
        self.steps += 1
        self.first = self.beta1 * self.first + (1 - self.beta1) * gradient
        self.second = self.beta2 * self.second + (1 - self.beta2) * gradient ** 2
        first = self.first / (1 - self.beta1 ** self.steps)
        second = self.second / (1 - self.beta2 ** self.steps)
        return w - self.lr * first / (second.sqrt() + 1e-8)


def draw_z(count, key):
    return normals(key, count * Z).float().double().view(count, Z)


def gradient(loss, w):
    w = w.detach().requires_grad_(True)
    return torch.autograd.grad(loss(w), w)[0]


def discriminator_gradient(d, w, real, made, options, key):
    """Of mean softplus(−D(x, c)) + mean softplus(D(made, c)); with noise, each real picture with
    its partner is cut to gan_clip and their sum noised (eq. 9)."""
    x, y = real

    def loss(w, rows=slice(None)):
        return (F.softplus(-d(w, x[rows], y[rows])).mean() +
                F.softplus(d(w, made[rows], y[rows])).mean())

    if options["gan_noise_std"] == 0:
        return gradient(loss, w)
    total = 0
    for i in range(len(y)):
        own = gradient(lambda w: loss(w, slice(i, i + 1)), w)
        total = total + own * min(1, options["gan_clip"] / own.norm())
    if options.get("clipped") == "after the sum":
        total = gradient(loss, w) * len(y)
        total = total * min(1, options["gan_clip"] / total.norm())
    noise = options["gan_noise_std"] * options["gan_clip"] * normals(key, len(total))
    return (total + noise) / len(y)


def trained(run, options, client, batches, start, key):
    """Both networks after the client's passes of the GAN."""
    g, d = run.gan
    w_g, w_d = start
    beta1 = options.get("beta1", 0.5)
    on_g, on_d = Adam(options["gan_lr"], beta1), Adam(options["gan_lr"], beta1)
    low, high = client.x.min(), client.x.max()
    batches.batch = options["gan_batch"]
    for epoch in range(options["gan_epochs"]):
        begin = 0
        for x, y in batches.epochs(1):
            step = derive(key, epoch, begin)
            begin += len(y)
            real = (x - low) / (high - low), y
            z, again = (draw_z(len(y), derive(step, use)) for use in (PARTNER, GENERATOR))
            if options.get("z") == "drawn once":
                again = z
            made = g(w_g, z, y).detach()
            w_d_next = on_d.step(w_d, discriminator_gradient(d, w_d, real, made, options,
                                                             derive(step, NOISE)))
            judge = w_d if options.get("generator") == "against the old D" else w_d_next
            w_g = on_g.step(w_g, gradient(
                lambda w: F.softplus(-d(judge, g(w, again, y), y)).mean(), w_g))
            w_d = w_d_next
    return w_g, w_d


class Mixed:
    """Training rows in an order of their own, whose batches nobody wrote down."""

    def __init__(self, x, y, batch, key):
        self.x, self.y, self.batch, self.key = x, y, batch, key

    def epochs(self, count):
        for epoch in range(count):
            order = permutation(len(self.y), derive(self.key, epoch))
            for begin in range(0, len(order), self.batch):
                rows = order[begin:begin + self.batch]
                yield self.x[rows], self.y[rows]


def with_made_pictures(run, options, client, generator, key):
    """The client's samples with made ones among them, or those in their place; its labels."""
    g, own = run.gan[0], client.all()
    made_key = derive(key, MADE)
    if options["gan_use"] == "replace":
        y = own[1]
    else:
        counts = torch.bincount(own[1], minlength=run.classes).double()
        shares = 1 / (counts + 1)
        if options["gan_classes"] == "own":
            shares = shares * (counts > 0)
        if options.get("classes") == "as at the client":
            shares = counts
        ends = torch.cumsum(shares / shares.sum(), 0)
        wanted = math.floor(options["gan_ratio"] * client.size + 0.5)
        y = torch.searchsorted(ends, uniforms(derive(made_key, CLASSES), wanted), right=True)
    low, high = client.x.min(), client.x.max()
    made = g(generator, draw_z(len(y), derive(made_key, PICTURES)), y) * (high - low) + low
    if options["gan_use"] == "replace":
        x = made
    else:
        x, y = torch.cat([own[0], made]), torch.cat([own[1], y])
    rows = permutation(len(y), derive(made_key, ORDER))
    return Mixed(x[rows], y[rows], run.train["batch"], key)


def fedavg_gan(run, options):
    sample = tuple(run.clients[0].x.shape[1:])
    run.gan = Generator(sample, run.classes), Discriminator(sample, run.classes)
    w = run.initial
    networks = [run.start[f"server/gan.{name}"].double() for name in ("generator", "discriminator")]
    for t, taken in rounds_of(run):
        due = options["gan_use"] != "nothing" and t > options["gan_warmup"] * run.rounds
        models, gans = {}, {}
        for i, batches in taken.items():
            client, key = run.clients[i], derive(run.seed, LOCAL, t, i)
            learned = None
            if options.get("pictures") == "of the generator just trained" and due:
                learned = trained(run, options, client, batches, networks, derive(key, LEARN))
            source = (with_made_pictures(run, options, client, (learned or networks)[0], key)
                      if due else batches)
            models[i] = epochs_of_sgd(run, t, source, w)
            gans[i] = learned or trained(run, options, client, batches, networks,
                                         derive(key, LEARN))
        w = average(run, models)
        networks = [average(run, {i: pair[n] for i, pair in gans.items()}) for n in (0, 1)]
        if options.get("average") == "of equals":
            networks = [sum(pair[n] for pair in gans.values()) / len(gans) for n in (0, 1)]
    return {"server/g.w": w, "server/gan.generator": networks[0],
            "server/gan.discriminator": networks[1]}
