#!/usr/bin/env bash
# Submits a run to TPU slices of a GKE cluster, by xpk.
#
#   launch/gke.sh --name=RUN --cluster=NAME --project=ID --zone=ZONE \
#     --type=v5litepod-16 --storage=NAME [FLAGS] \
#     -- --config=FILE --workdir=/MOUNT/FOLDER ...
#
# --name=RUN         of the workload
# --cluster=NAME     --project=ID --zone=ZONE: where it is
# --type=TYPE        of the slices, as xpk calls them
# --slices=1         how many
# --storage=NAME     a file system that `xpk storage` attached; --workdir is on it
# --image=python:3.12-bookworm   what the repository is put into
# --restarts=20     how often the machines may be taken away
# --env=NAME=VALUE   for every process; may be repeated
# --dry-run          prints what would be run
#
# The image is made of --image and this folder; what agentrl needs is installed
# when a pod starts. A pod that is evicted has five minutes to save the state.

set -euo pipefail
# shellcheck source=launch/common.sh
source "${BASH_SOURCE[0]%/*}/common.sh"

name='' cluster='' project='' zone='' type='' storage=''
slices=1 image=python:3.12-bookworm restarts=20
parse 'name cluster project zone type slices storage image restarts' "$@"
need name cluster project zone type storage image
check_name "$name"
check_number slices restarts

((${#env[@]})) || env=(env)
env+=(PYTHON=python3)
# xpk hands SIGTERM to what it started: exec makes that the process of the run.
run xpk workload create "--workload=$name" "--cluster=$cluster" \
  "--project=$project" "--zone=$zone" "--tpu-type=$type" \
  "--num-slices=$slices" "--storage=$storage" \
  "--base-docker-image=$image" --script-dir=. "--max-restarts=$restarts" \
  --restart-on-user-code-failure --termination-grace-period-seconds=300 \
  "--command=pip install -q -e '.[tpu]' && exec $(worker gke)"
