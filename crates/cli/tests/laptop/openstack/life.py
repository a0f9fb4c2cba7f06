"""The whole life of a Dask cluster with real processes, through the OpenStack SDK."""

import os
import signal
import sys
import time
import urllib.request

import openstack

connection = openstack.connect()
clustering = connection.clustering


def wait_for(action_or_cluster, what, wanted, fetch):
    """Asks until something is as it should be; a hang ends with the test's patience."""
    end = time.monotonic() + 120
    while True:
        seen = fetch()
        if wanted(seen):
            return seen
        assert time.monotonic() < end, f"{action_or_cluster} never was {what}: {seen}"
        time.sleep(0.1)


def ended(location):
    action = location.rsplit("/", 1)[-1]
    shown = wait_for(action, "over", lambda seen: seen.status in ("SUCCEEDED", "FAILED", "CANCELLED"),
                     lambda: clustering.get_action(action))
    assert shown.status == "SUCCEEDED", shown
    return shown


def size(wanted):
    return wait_for("c", f"{wanted} large and ACTIVE",
                    lambda seen: seen.status == "ACTIVE" and len(seen.node_ids) == wanted,
                    lambda: clustering.get_cluster("c"))


profile = clustering.create_profile(
    name="dask", spec={"type": "dask.cluster", "version": 1.0, "properties": {}})
cluster = clustering.create_cluster(name="c", profile_id=profile.id, desired_capacity=1, max_size=4)
size(1)
nodes = list(clustering.nodes(cluster_id="c"))
assert sorted(node.role for node in nodes) == ["", "head"], nodes
print("made")

deletion = clustering.create_policy(
    name="youngest",
    spec={"type": "senlin.policy.deletion", "version": "1.1", "properties": {"criteria": "YOUNGEST_FIRST"}})
health = clustering.create_policy(
    name="health",
    spec={"type": "senlin.policy.health", "version": "1.2", "properties": {
        "detection": {"interval": 1, "detection_modes": [{"type": "LIFECYCLE_EVENTS"}]},
        "recovery": {"actions": [{"name": "RECREATE"}]}}})
for policy in (deletion, health):
    ended(clustering.attach_policy_to_cluster(cluster.id, policy.id)["action"])
assert {binding.policy_id for binding in clustering.cluster_policies(cluster.id)} == {deletion.id, health.id}
print("bound")

first = clustering.get_cluster("c").node_ids[0]
ended(clustering.scale_out_cluster(cluster.id, 1)["action"])
size(2)
ended(clustering.scale_in_cluster(cluster.id, 1)["action"])
assert size(1).node_ids == [first], "the youngest went"
print("scaled")

before = clustering.get_node(first).physical_id
os.kill(int(before), signal.SIGKILL)
wait_for("the worker", "back", lambda seen: seen.status == "ACTIVE" and seen.physical_id != before,
         lambda: clustering.get_node(first))
size(1)
print("healed")

receiver = clustering.create_receiver(
    name="r", type="webhook", cluster_id=cluster.id, action="CLUSTER_SCALE_OUT", params={"count": 1})
request = urllib.request.Request(receiver.channel["alarm_url"], method="POST")
with urllib.request.urlopen(request) as answer:
    assert answer.status == 202, answer.status
size(2)
print("triggered")

def processes():
    return {node.id: node.physical_id for node in clustering.nodes(cluster_id="c")}


before = processes()
head = next(node.id for node in clustering.nodes(cluster_id="c") if node.role == "head")
larger = clustering.create_profile(
    name="larger", spec={"type": "dask.cluster", "version": 1.0, "properties": {"worker": {"env": {"COLOUR": "red"}}}})
updated = clustering.update_cluster(cluster.id, profile_id=larger.id)
wait_for("c", "updated", lambda seen: seen.status == "ACTIVE" and seen.profile_id == larger.id,
         lambda: clustering.get_cluster("c"))
after = processes()
assert after.keys() == before.keys(), (before, after)
assert {node for node in after if after[node] == before[node]} == {head}, "workers are new, the head is not"
for worker in after.keys() - {head}:
    with open(f"/proc/{after[worker]}/environ", "rb") as environment:
        assert b"COLOUR=red" in environment.read().split(b"\0")
print("updated")

clustering.delete_cluster(cluster.id, ignore_missing=False)
wait_for("c", "gone", lambda seen: seen is None, lambda: clustering.find_cluster("c"))
clustering.delete_profile(profile.id, ignore_missing=False)
print("gone")
sys.exit(0)
