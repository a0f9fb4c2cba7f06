"""Drains nodes of Ray: they take no new tasks, and their running tasks may end. Prints the nodes that agreed to drain.

Ray ends a draining node once it is idle. A node that only holds objects counts as busy as long as a program might read
them. Ray computes such an object again if it is needed later, so a node that only holds objects is waited for briefly.
"""

import json
import sys
import time

from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2

ASK_AGAIN = 0.05
HOLDS_AT_MOST = 5.0
ASK_WITHIN = 10

address, within, *nodes = sys.argv[1:]
gcs = GcsClient(address=address)
deadline = time.time() + int(within)
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")


def drain(node):
    agreed, why = gcs.drain_node(node, reason, "removed by its user", int(deadline * 1000))
    if not agreed:
        print(f"{node}: {why}", file=sys.stderr)
    return agreed


def activities():
    """Returns the current activities of the nodes that are alive, by node."""
    answer = autoscaler_pb2.GetClusterResourceStateReply()
    answer.ParseFromString(gcs.get_cluster_resource_state(ASK_WITHIN))
    states = answer.cluster_resource_state.node_states
    return {state.node_id.hex(): state.node_activity for state in states if state.status != autoscaler_pb2.DEAD}


def only_holds(activity):
    return bool(activity) and all("object_store_memory" in word for word in activity)


drained = [node for node in nodes if drain(node)]
busy = {node: time.time() for node in drained}
while busy and time.time() < deadline:
    there = activities()
    now = time.time()
    for node in list(busy):
        if node not in there or now - busy[node] >= HOLDS_AT_MOST:
            del busy[node]
        elif not only_holds(there[node]):
            busy[node] = now
    if busy:
        time.sleep(ASK_AGAIN)
print(json.dumps(drained))
