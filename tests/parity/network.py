"""The networks, by their definition in the specification, as functions of one flat vector."""
import math

import torch
import torch.nn.functional as F


class Network:
    """Layers in the order of the flat vector: each weight, then its bias."""

    def __init__(self, name, sample, classes):
        shapes = {"lenet": lenet_shapes, "mlp100": mlp100_shapes}[name](sample, classes)
        self.layers = [(f"{module}.{kind}", shape)
                       for module, weight, bias in shapes
                       for kind, shape in (("weight", weight), ("bias", bias))]
        self.convolutional = name == "lenet"
        self.size = sum(math.prod(shape) for _, shape in self.layers)
        head = sum(math.prod(shape) for name, shape in self.layers if name.startswith("head."))
        self.body = slice(0, self.size - head)  # the last linear layer is the head
        self.head = slice(self.size - head, self.size)

    def logits(self, w, x):
        return F.linear(self.features(w, x), *self.layer_pairs(w)[-1])

    def layer_pairs(self, w):
        pieces = w.split([math.prod(shape) for _, shape in self.layers])
        tensors = [piece.view(shape) for piece, (_, shape) in zip(pieces, self.layers)]
        return list(zip(tensors[0::2], tensors[1::2]))

    def features(self, w, x):
        """What the head reads."""
        pairs = self.layer_pairs(w)
        if self.convolutional:
            for weight, bias in pairs[:2]:
                x = F.max_pool2d(F.relu(F.conv2d(x, weight, bias)), 2)
            pairs = pairs[2:]
        x = x.flatten(1)
        for weight, bias in pairs[:-1]:
            x = F.relu(F.linear(x, weight, bias))
        return x

    def loss(self, w, batch):
        """The mean cross-entropy over a batch (x, y)."""
        return float(F.cross_entropy(self.logits(w, batch[0]), batch[1]))

    def gradient(self, w, batch):
        """Of the mean cross-entropy over a batch (x, y)."""
        w = w.detach().requires_grad_(True)
        loss = F.cross_entropy(self.logits(w, batch[0]), batch[1])
        return torch.autograd.grad(loss, w)[0]


def linear_shapes(widths, classes):
    hidden = [(f"fc{i + 1}", (widths[i + 1], widths[i]), (widths[i + 1],))
              for i in range(len(widths) - 1)]
    return hidden + [("head", (classes, widths[-1]), (classes,))]


def lenet_shapes(sample, classes):
    """5×5 convolutions of 6 and 16 maps without padding, each halved by max-pooling; FC 120, 84."""
    channels, height, width = sample
    left = 16 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    return [("conv1", (6, channels, 5, 5), (6,)),
            ("conv2", (16, 6, 5, 5), (16,))] + linear_shapes([left, 120, 84], classes)


def mlp100_shapes(sample, classes):
    """One hidden layer of 100."""
    return linear_shapes([math.prod(sample), 100], classes)
