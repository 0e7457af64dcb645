#!/usr/bin/env bash
# Starts a run as a managed job of SkyPilot, on spot machines.
#
#   launch/sky.sh --name=RUN --gpus=H100:8 --bucket=gs://BUCKET [FLAGS] \
#     -- --config=FILE --workdir=/runs/RUN ...
#
# --name=RUN         of the job
# --gpus=KIND:COUNT  on each machine
# --bucket=URL       where /runs of the machine is kept
# --nodes=1          machines; several need a --task of your own
# --task=launch/sky.yaml   what SkyPilot is told
# --env=NAME=VALUE   for every process; may be repeated
# --dry-run          prints what would be run
#
# When a machine is taken away SkyPilot finds another one, and the run goes on.

set -euo pipefail
# shellcheck source=launch/common.sh
source "${BASH_SOURCE[0]%/*}/common.sh"

name='' gpus='' bucket='' nodes=1 task=launch/sky.yaml
parse 'name gpus bucket nodes task' "$@"
need name gpus bucket task
check_name "$name"
check_number nodes
((nodes == 1)) || [[ $task != launch/sky.yaml ]] ||
  fail "--nodes=$nodes: a bucket is not a folder that machines share; write a\
 --task whose /runs is a volume"

run sky jobs launch --yes "--name=$name" "--num-nodes=$nodes" "--gpus=$gpus" \
  --use-spot --env "BUCKET=$bucket" --env "TRAIN=$(worker sky)" "$task"
