"""An mlp by numpy: its layout, training and figures (docs/protocol.md, "The network and its parameters")."""
import numpy

import wire
from chance import Stream, derive
from samples import Unfit


class Network:
    def __init__(self, options, inputs, classes):
        hidden, activation = [100], "relu"
        if options["name"] == "mlp":
            hidden, activation = options["hidden"], options["activation"]
            if options["norm"] != "none" or options["dropout"] > 0 or activation not in ("relu", "tanh", "sigmoid"):
                raise Unfit("batch norm, dropout and gelu are not implemented here")
        elif options["name"] != "mlp100":
            raise Unfit(f"model '{options['name']}' is not implemented here")
        self.activation, self.classes = activation, classes
        self.layers, width = [], inputs
        for i, out in enumerate([*hidden, classes], 1):
            name = f"fc{i}" if i <= len(hidden) else "head"
            self.layers += [(f"{name}.weight", (out, width)), (f"{name}.bias", (out,))]
            width = out
        self.size = sum(int(numpy.prod(shape)) for _, shape in self.layers)

    def layout_digest(self):
        lines = [f"{name} {'x'.join(map(str, shape))}\n" for name, shape in self.layers]
        return wire.sha256(("".join(lines) + "--\n--\n").encode())

    def views(self, w):
        """(weight, bias) of every layer, of a flat vector."""
        out, at = [], 0
        for _, shape in self.layers:
            size = int(numpy.prod(shape))
            out.append(w[at:at + size].reshape(shape))
            at += size
        return list(zip(out[::2], out[1::2]))

    def active(self, z):
        if self.activation == "relu":
            return numpy.maximum(z, 0)
        return numpy.tanh(z) if self.activation == "tanh" else 1 / (1 + numpy.exp(-z))

    def slope(self, a):
        """Of the activation, from what came out of it."""
        if self.activation == "relu":
            return (a > 0).astype(a.dtype)
        return 1 - a * a if self.activation == "tanh" else a * (1 - a)

    def outputs(self, w, x):
        """What goes into each layer, and the logits."""
        ins = []
        layers = self.views(w)
        for weight, bias in layers:
            ins.append(x)
            x = x @ weight.T + bias
            if len(ins) < len(layers):
                x = self.active(x)
        return ins, x

    def gradient(self, w, x, y, weights):
        """(mean loss, its gradient [d])."""
        ins, logits = self.outputs(w, x)
        losses, shares = cross_entropy(logits, y)
        rows, n = numpy.arange(len(y)), numpy.float32(len(y))
        delta = shares
        delta[rows, y] -= 1
        delta *= (weights[y] / n)[:, None]
        out = numpy.empty_like(w)
        for (weight, _), (into, bias_into), at in zip(self.views(w)[::-1], self.views(out)[::-1], ins[::-1]):
            into[:], bias_into[:] = delta.T @ at, delta.sum(0)
            delta = delta @ weight * self.slope(at)  # of the first layer it is not used
        return float((losses * weights[y]).mean()), out


def cross_entropy(logits, y):
    """Losses [n] and shares [n, classes]."""
    low = logits - logits.max(1, keepdims=True)
    exp = numpy.exp(low)
    total = exp.sum(1, keepdims=True)
    return numpy.log(total[:, 0]) - low[numpy.arange(len(y)), y], exp / total


def trained(network, samples, options, seed, client, round_, start, mu=0.0):
    """(w, loss) of what a client does in a round, from the parameters `start`."""
    key = derive(seed, 4, round_, client)
    x, y = samples.part(samples.train)
    weights = numpy.ones(network.classes, numpy.float32)
    if options["class_weights"] == "balanced":
        counts = numpy.bincount(y, minlength=network.classes)
        there = counts > 0
        weights[there] = len(y) / (there.sum() * counts[there])
    rate = numpy.float32(options["lr"] * options["lr_decay"] ** (round_ - 1))
    w, velocity, losses = start.copy(), None, []
    for epoch in range(options["epochs"]):
        order = Stream(derive(key, epoch)).shuffled(range(len(y)))
        for begin in range(0, len(y), options["batch"]):
            batch = order[begin:begin + options["batch"]]
            loss, g = network.gradient(w, x[batch], y[batch], weights)
            losses.append(loss)
            if mu:
                g += numpy.float32(mu) * (w - start)
            if options["weight_decay"] > 0:
                g += numpy.float32(options["weight_decay"]) * w
            if options["momentum"] > 0:
                velocity = g if velocity is None else numpy.float32(options["momentum"]) * velocity + g
                g = velocity
            w -= rate * g
    return w, sum(losses) / len(losses) if losses else 0.0


def ratio(part, whole):
    return part / whole if whole else 0.0


def f1(predicted, truth, classes):
    values = [ratio(2 * ((predicted == c) & (truth == c)).sum(), (predicted == c).sum() + (truth == c).sum())
              for c in range(classes) if (predicted == c).any() or (truth == c).any()]
    return sum(values) / len(values)


def auroc(scores, positive):
    """The chance that a row that is one has a higher score than one that is not."""
    up, down = scores[positive][:, None], scores[~positive][None, :]
    return ((up > down).sum() + 0.5 * (up == down).sum()) / (up.size * down.size)


def figures(network, w, x, y):
    """A row of `metrics`, and the confusion."""
    classes, n = network.classes, len(y)
    confusion = numpy.zeros((classes, classes), "<i8")
    if n == 0:
        return [0.0, 0.0] + [numpy.nan] * 7, confusion
    _, logits = network.outputs(w, x)
    losses, shares = cross_entropy(logits.astype(numpy.float64), y)
    guess = logits.argmax(1)
    numpy.add.at(confusion, (y, guess), 1)
    present = [c for c in range(classes) if (y == c).any()]
    hits = {c: ((guess == c) & (y == c)).sum() for c in present}
    mapped = guess.copy()
    for i, label in enumerate(y):
        if guess[i] not in present:
            mapped[i] = next((c for c in present if c != label), -1)
    areas = [auroc(shares[:, c], y == c) for c in present if (y != c).any()]
    sure = shares[numpy.arange(n), guess]
    bins = numpy.minimum((sure * 15).astype(int), 14)
    gaps = numpy.bincount(bins, (guess == y) - sure, 15)
    return [float(n), float((guess == y).sum()), losses.mean(),
            sum(ratio(hits[c], (guess == c).sum()) for c in present) / len(present),
            f1(guess, y, classes), f1(mapped, y, classes),
            sum(ratio(hits[c], (y == c).sum()) for c in present) / len(present),
            sum(areas) / len(areas) if areas else numpy.nan, numpy.abs(gaps).sum() / n], confusion
