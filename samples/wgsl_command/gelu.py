"""The command of the sample: a shader in WGSL, run by the package wgpu on its own device, beside IREE's."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wgpu


def quick_gelu(x: np.ndarray, out: np.ndarray) -> None:
    if not x.size:
        return
    device, pipeline = _pipeline()
    usage = wgpu.BufferUsage.STORAGE
    source = device.create_buffer_with_data(data=x, usage=usage)
    result = device.create_buffer(size=out.nbytes, usage=usage | wgpu.BufferUsage.COPY_SRC)
    buffers = [{"binding": number, "resource": {"buffer": buffer}} for number, buffer in enumerate((source, result))]
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=buffers))
    work.dispatch_workgroups((x.size + 63) // 64)
    work.end()
    device.queue.submit([encoder.finish()])
    out[...] = np.frombuffer(device.queue.read_buffer(result), out.dtype).reshape(out.shape)


@cache
def _pipeline() -> tuple[Any, Any]:
    device = wgpu.gpu.request_adapter_sync(power_preference="high-performance").request_device_sync()
    shader = device.create_shader_module(code=Path(__file__).with_name("gelu.wgsl").read_text())
    compute = {"module": shader, "entry_point": "quick_gelu"}
    return device, device.create_compute_pipeline(layout="auto", compute=compute)
