"""Start two Ray nodes of one core each: python ray_nodes.py FOLDER CACHE CACHE, in an environment with Ray.

The program prints the cluster's address and stops when its standard input ends. Each node has its own job cache.
"""

import sys

from ray.cluster_utils import Cluster

MEMORY = 80 * 2**20

if __name__ == "__main__":
    folder, *caches = sys.argv[1:]
    cluster = Cluster()
    for cache in caches:
        cluster.add_node(
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=MEMORY,
            temp_dir=folder,
            env_vars={"NMT_CACHE": cache},
        )
    cluster.wait_for_nodes()
    print(f"address {cluster.address}", flush=True)
    sys.stdin.read()
    cluster.shutdown()
