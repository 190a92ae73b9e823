"""What would a model cost on devices, by their published peaks?

A decode step of B sequences, their C tokens of context, on n devices with tensor parallelism:

    t(B, C) = host + max(w W(B) / (b n BW), 2 A B / (c n F)) + C K / (b m BW) + x B       [s]

    host  outside the devices: launching, scheduling, sampling [s]
    W(B)  parameters read, distinct experts in expectation; w bytes each
    A     parameters that a token is multiplied with: 2 FLOP each
    F, BW peak [FLOP/s] and memory bandwidth [bytes/s] of a device; c, b: the shares reached
    K     bytes of keys and values a token; m = min(n, parts): what is split no further is copied
    x     all-reduces: 2 a layer of 2 (n - 1) / n hidden values each, over the link [s a sequence]

The cost model is a line in B: the least squares of t from 1 sequence to all slots, each number as
likely. For experts, of which W bends, it is too high at few sequences and too low between.

    prefill   2 A / (c n F) + x                       [s a prompt token]; attention left out
    training  6 A / (u F), forward and backward       [device-seconds a token]; u is the model FLOP
              utilisation (PaLM, arXiv 2204.02311, appendix B); passes for log-probabilities and
              recomputation lower u
    memory    n (share x memory) - w parameters, over K n / m   [tokens that an actor keeps]
    weights   leave training over one device's network, and enter an actor over those of all its n

All is a lower bound. The published system's 58 tokens a second a device (arXiv 2611.08864) are
about a tenth of what it allows. The host term is taken to be most of the rest, and has no default.
The shares are assumptions, none of them measured.

Arrays end in an axis legend: _k numbers of sequences.
"""

from dataclasses import dataclass

import numpy as np

from stages.costs.devices import Device
from stages.costs.model import CostModel
from stages.costs.models import Model

NUM_POINTS = 65  # of the roofline that the line is laid through
KV_BYTES = 2  # of a key or value, kept in BF16
WEIGHT_BYTES = {"bfloat16": 2, "float16": 2, "float8": 1}
"""Of a parameter in generation; float8 is read so, and multiplied at the rate of BF16."""


@dataclass(frozen=True)
class Efficiency:
    """Shares of a peak that a stack reaches: assumptions, to be replaced by what is measured."""

    bandwidth: float = 0.8  # of memory, link and network
    compute: float = 0.5  # of prefill and large decode steps
    training: float = 0.35  # model FLOP utilisation
    memory: float = 0.9  # of a device's memory, for weights, keys and values


@dataclass(frozen=True)
class Actor:
    """A model on the devices of one generation actor."""

    device: Device
    model: Model
    num_devices: int = 1  # tensor parallel
    weight_bytes: int = 2  # of a parameter
    efficiency: Efficiency = Efficiency()

    def step_seconds(self, num_sequences: float) -> float:
        """Of a decode step, on the devices, without what the context takes."""
        read = self.weight_bytes * self.model.touched_parameters(num_sequences)
        memory = read / (self._bandwidth * self.num_devices)
        compute = num_sequences * self._multiply_seconds
        return max(memory, compute) + num_sequences * self._link_seconds

    def cost_model(self, slots: int, host_seconds: float) -> CostModel:
        """The line nearest to the roofline from one sequence to all slots."""
        sequences_k = np.linspace(1, slots, NUM_POINTS)
        seconds_k = np.array([self.step_seconds(float(number)) for number in sequences_k])
        offset_k = sequences_k - sequences_k.mean()
        spread = float(offset_k @ offset_k)
        # A step never falls with sequences; where it is flat, rounding may say so.
        slope = max(0.0, float(offset_k @ seconds_k) / spread) if spread else 0.0
        return CostModel(
            step_seconds=host_seconds + float(seconds_k.mean() - slope * sequences_k.mean()),
            sequence_seconds=slope,
            prefill_seconds=self._multiply_seconds + self._link_seconds,
            kv_seconds=self._kv_bytes / (self._bandwidth * self.num_devices),
        )

    @property
    def weights(self) -> int:
        """Bytes of all parameters."""
        return self.weight_bytes * self.model.parameters

    @property
    def kv_tokens(self) -> int:
        """Of prompts and responses that fit beside the weights; below 0 where these do not fit."""
        room = self.efficiency.memory * self.device.memory.value * self.num_devices
        return int((room - self.weights) / self._kv_bytes)

    @property
    def publication_seconds(self) -> float:
        """Training sends its weights once, from one device; receivers pass them on."""
        return self.weights / (self.efficiency.bandwidth * self.device.network.value)

    @property
    def reload_seconds(self) -> float:
        """The actor takes them in, each device its part."""
        return self.publication_seconds / self.num_devices

    @property
    def tokens_per_second(self) -> float:
        """That one device trains on."""
        flop = 6 * self.model.multiplied_parameters
        return self.efficiency.training * self.device.peak.value / flop

    @property
    def _bandwidth(self) -> float:
        return self.efficiency.bandwidth * self.device.bandwidth.value

    @property
    def _multiply_seconds(self) -> float:
        """Of one token, on all devices."""
        rate = self.efficiency.compute * self.device.peak.value * self.num_devices
        return 2 * self.model.multiplied_parameters / rate

    @property
    def _kv_bytes(self) -> float:
        """Of a token on all devices, copies counted."""
        copies = max(1.0, self.num_devices / self.model.kv_parts)
        return KV_BYTES * self.model.kv_values * copies

    @property
    def _link_seconds(self) -> float:
        """Of one token's all-reduces."""
        values = 2 * self.model.num_layers * self.model.hidden_size * KV_BYTES
        sent = 2 * (self.num_devices - 1) / self.num_devices * values
        return sent / (self.efficiency.bandwidth * self.device.link.value)
