"""Fourier transforms, and the ops on complex numbers around them: the numbers of eager mode."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch import fft

import opsplice.torch


class Transforms(torch.nn.Module):
    """Of sizes with factors and without, of several dims, forward and back, with each normalization."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        spectrum = torch.stft(y, 16, 4, window=torch.hann_window(16, dtype=y.dtype), return_complex=True)
        several = fft.ifftn(torch.complex(x, x.flip(0)), norm="forward")
        whole = fft.irfft(fft.rfft(y, n=192) * fft.rfft(y.flip(-1), n=192), n=192)
        back = fft.irfft2(fft.rfft2(x, norm="ortho") * 2.5, s=x.shape[-2:], norm="ortho")
        odd = fft.irfft(fft.rfft(x, n=47), n=7)
        sums = spectrum + several.sum() - spectrum.sum(1, keepdim=True) + 2.5
        parts = map(torch.view_as_real, (several, spectrum, sums, fft.ifft(torch.complex(z, z))))
        return [*parts, spectrum.abs(), whole, back, odd]


def test_transforms_are_those_of_eager():
    model, inputs = Transforms().eval(), (torch.randn(3, 6, 4), torch.randn(2, 96), torch.randn(3, 12))
    program = opsplice.torch.export(model, inputs, dynamic={"z": {1: "n"}})
    for z in (inputs[2], torch.randn(3, 7)):
        given = (*inputs[:2], z)
        wanted = model(*(each.double() for each in given))
        for got, exact in zip(program.run("main", *(each.numpy() for each in given)), wanted, strict=True):
            np.testing.assert_allclose(got, exact.numpy(), atol=1e-6 * float(exact.abs().max()), rtol=0)
