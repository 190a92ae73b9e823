"""verl from 0.9.1: places prompts on the instances that the plan chose.

    actor_rollout_ref.rollout.router_config_path=THIS_DIRECTORY/asp_router.yaml

Of what a request carries, the router sees `priority`, which emit puts into the data file: a number
for each row. Instance i of the plan is the i-th server in the order in which verl starts them.
"""

import json
from pathlib import Path
from typing import Any

from verl.workers.rollout.router import GlobalRequestLoadBalancer

FOLDER = Path(__file__).resolve().parent


class PlannedRouter(GlobalRequestLoadBalancer):
    """verl's own balancer, except that a request of a planned prompt begins where it was placed.

    Requests without a place (validation, other prompts, a server that is not there) go where verl
    sends them; `get_status` counts both.
    """

    def __init__(self, servers: dict[str, Any], config: dict[str, Any]) -> None:
        super().__init__(servers)
        plan = json.loads((FOLDER / "asp.json").read_text(encoding="utf-8"))
        self._first_priority: int = plan["first_priority"]
        self._instance_r: list[int | None] = [None] * plan["num_rows"]
        for span in plan["minibatches"]:
            first, count = span["first_row"], span["num_rows"]
            self._instance_r[first : first + count] = [span["instance"]] * count
        self._num_placed = self._num_free = 0

    def require_acquire_fields(self) -> list[str]:
        """What verl is to hand to `acquire_server`."""
        return ["priority"]

    def acquire_server(self, request_id: str, priority: int = 0) -> tuple[str, Any]:
        """The planned server of a new request; that of the last turn where there was one."""
        place = self._place(priority - self._first_priority)
        self._num_placed += place is not None
        self._num_free += place is None
        if place is not None and request_id not in self._request_id_to_server:
            self._request_id_to_server[request_id] = place
        server: tuple[str, Any] = super().acquire_server(request_id)
        return server

    def _place(self, row: int) -> str | None:
        instance = self._instance_r[row] if 0 <= row < len(self._instance_r) else None
        servers = list(self._servers)
        return servers[instance] if instance is not None and instance < len(servers) else None

    def get_status(self) -> dict[str, Any]:
        """verl's, and how many requests were placed as planned."""
        status: dict[str, Any] = super().get_status()
        return status | {"placed": self._num_placed, "free": self._num_free}
