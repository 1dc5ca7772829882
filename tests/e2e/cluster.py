"""A Ray cluster of several nodes on this machine: `python cluster.py NODES` prints its address,
ends with its input.
"""

import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 16, "num_gpus": 1}
"""One worker fits on a node, so two workers are on two nodes."""

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(int(sys.argv[1]) - 1):
        cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()
