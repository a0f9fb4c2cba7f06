"""Starts a node of Ray, as `ray start` does, whose servers listen on the loopback address only.

Ray replaces 127.0.0.1 by an address of the network and then listens on all of them, unless it takes clusters of several
nodes to be disabled, as it does on Windows and macOS. This sets that for what the node starts; `ray start` itself would refuse it.
"""

import os

from ray._private import ray_constants, services
from ray.scripts.scripts import main

services.resolve_ip_for_localhost = lambda host: host
os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
main()
