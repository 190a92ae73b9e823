"""What can one accelerator do, and who says so?

Published figures, dense BF16, one direction of a link. Peaks: what of them a stack reaches is an
efficiency of `roofline.py`. Each figure carries its source, and only NVIDIA's have a datasheet. Of
910B3 public pages disagree (256 to 320 TFLOP/s, 0.4 to 1.6 TB/s). *From memory*: written down
without the page at hand.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Figure(NamedTuple):
    """A number and where it comes from."""

    value: float
    source: str


@dataclass(frozen=True)
class Device:
    """One accelerator."""

    name: str
    peak: Figure  # dense BF16 [FLOP/s]
    memory: Figure  # [bytes]
    bandwidth: Figure  # of that memory [bytes/s]
    link: Figure  # to a device of the same node, one way [bytes/s]
    network: Figure  # to a device of another node, one way [bytes/s]


_A100 = "NVIDIA A100 datasheet, SXM4 80 GB"
_H100 = "NVIDIA H100 datasheet, SXM5"
_H200 = "NVIDIA H200 datasheet, SXM5"
_910B = "github.com/JiusiServe/light-llm-simulator, conf/hardware_config.py"
_DGX = "docs.nvidia.com, DGX BasePOD, core components: ConnectX-7, 400 Gb/s for each device"
_BOTH_WAYS = "halved, since it counts both directions"
_SPARSE = "halved, since it counts on sparsity"

DEVICES = {
    device.name: device
    for device in (
        Device(
            "910B3",
            Figure(
                294.9e12,
                f"{_910B}; as many as 20 cores x 8192 FLOP a cycle (mindspore-ai/akg, "
                "documentation) x 1.8 GHz; other public pages: 256, 280, 313 and 320 TFLOP/s",
            ),
            Figure(64e9, _910B),
            Figure(1.6e12, f"{_910B}; other public pages: 0.4, 0.77 and 1.2 TB/s"),
            Figure(196e9, f"{_910B}: card to card"),
            Figure(50e9, f"{_910B}: node to node"),
        ),
        Device(
            "A100",
            Figure(312e12, _A100),
            Figure(80e9, _A100),
            Figure(2.039e12, _A100),
            Figure(300e9, f"{_A100}: NVLink 600 GB/s, {_BOTH_WAYS}"),
            Figure(25e9, "NVIDIA DGX A100: 200 Gb/s InfiniBand for each device; from memory"),
        ),
        Device(
            "H100",
            Figure(989.5e12, f"{_H100}: 1,979 TFLOP/s, {_SPARSE}"),
            Figure(80e9, _H100),
            Figure(3.35e12, _H100),
            Figure(450e9, f"{_H100}: NVLink 900 GB/s, {_BOTH_WAYS}"),
            Figure(50e9, _DGX),
        ),
        Device(
            "H200",
            Figure(989.5e12, f"{_H200}: 1,979 TFLOP/s, {_SPARSE}"),
            Figure(141e9, _H200),
            Figure(4.8e12, _H200),
            Figure(450e9, f"{_H200}: NVLink 900 GB/s, {_BOTH_WAYS}"),
            Figure(50e9, _DGX),
        ),
    )
}
