"""Joining a Ray cluster: what is not there is told in one line, and soon."""

import signal
import threading

import pytest

from stages.tables.errors import AspError
from stages.workers.ray_cluster import on_ray, within


def test_a_start_that_hangs_is_broken_off() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(TimeoutError, match=r"no answer in 0\.05 s"), within(0.05):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Event().wait()
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "no Ray cluster is reached there"),
        ("ray://127.0.0.1:1", "no Ray cluster is reached there"),
        ("127.0.0.1:-1", "'-1' is no port, a number from 1 to 65535"),
    ],
)
def test_an_address_where_nobody_listens(address: str, reason: str) -> None:
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        pytest.skip("this process is on a cluster already")
    with pytest.raises(AspError) as caught, on_ray(address, "leave --ray out"):
        pass
    assert str(caught.value).startswith(f"--ray {address}: ")
    assert reason in str(caught.value) and str(caught.value).endswith("or leave --ray out")
