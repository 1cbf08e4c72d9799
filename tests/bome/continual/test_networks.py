"""Networks of continual learning and their modulation."""

import numpy as np
import torch
from torch import nn

from bome.continual.networks import Controller, Mlp, ReducedResNet


def test_the_modulated_network_is_its_formula_in_numpy() -> None:
    draw = torch.Generator().manual_seed(0)
    net, controller = Mlp([5, 4, 4, 3]), Controller(3, 2, [4, 4])
    x, task = torch.randn(6, 5, generator=draw), torch.tensor([0, 1, 2, 0, 1, 2])
    h, embedded = x.numpy(), controller.embedding.weight.detach().numpy()[task.numpy()]
    layers = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in net.layers if isinstance(m, nn.Linear)]
    films = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in controller.films if isinstance(m, nn.Linear)]
    for (w, b), (fw, fb) in zip(layers[:2], films, strict=True):
        a, film = h @ w.T + b, embedded @ fw.T + fb
        gamma, beta = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in (film[:, :4], film[:, 4:]))
        h = np.maximum(a, 0) + np.maximum(gamma * a + beta, 0)
    expected = h @ layers[2][0].T + layers[2][1]
    np.testing.assert_allclose(net(x, controller(task)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    plain = np.maximum(np.maximum(x.numpy() @ layers[0][0].T + layers[0][1], 0) @ layers[1][0].T + layers[1][1], 0)
    np.testing.assert_allclose(net(x).detach().numpy(), plain @ layers[2][0].T + layers[2][1], rtol=1e-5, atol=1e-6)


def test_the_reduced_resnet_has_the_published_shape() -> None:
    net = ReducedResNet(85)
    controller = Controller(17, 64, net.modulated, constant_norms=True)
    assert net.modulated == [160]
    x, task = torch.randn(2, 3, 32, 32), torch.tensor([0, 5])
    assert net.blocks(net.stem(x)).shape == (2, 160, 2, 2)
    assert net(x, controller(task)).shape == (2, 85)
    assert net(x).shape == (2, 85)
    gamma = controller(task)[0][0]
    torch.testing.assert_close(gamma.norm(dim=1), torch.ones(2))
