#!/usr/bin/env bash
# Starts a run on all workers of a TPU VM (a slice of any size), by gcloud.
#
#   launch/tpu.sh --name=TPU --zone=ZONE --source=URL [FLAGS] \
#     -- --config=FILE --workdir=/FOLDER ...
#
# --name=TPU         of the TPU VM, which exists
# --zone=ZONE        where it is
# --source=URL       what git clones on a worker that has no repository yet
# --ref=REF          branch, tag or whole commit id to check out, fetched each
#                    time; without it, what the worker has
# --extras=A,B       extras to install beside tpu, such as host,games
# --dir=agentrl      the repository on the workers, below the home folder
# --env=NAME=VALUE   for every process; may be repeated
# --dry-run          prints what would be run
#
# The processes outlive this connection and write their output to train.log in
# the repository of each worker. If the run is still going, the same command says
# so; if it was cut off, the same command resumes it.

set -euo pipefail
# shellcheck source=launch/common.sh
source "${BASH_SOURCE[0]%/*}/common.sh"

name='' zone='' source='' ref='' extras='' dir=agentrl
parse 'name zone source ref extras dir' "$@"
need name zone source dir
check_name "$name"
[[ $ref != -* ]] || fail "--ref=$ref must be a branch, tag or commit id"
[[ $extras =~ ^([a-z0-9_-]+(,[a-z0-9_-]+)*)?$ ]] ||
  fail "--extras=$extras must be names joined by commas, such as host,games"
checkout=''
if [[ $ref ]]; then
  checkout="
git fetch -q origin $(quoted "$ref")
git checkout -q --detach FETCH_HEAD"
fi

everywhere() {
  run gcloud compute tpus tpu-vm ssh "$name" "--zone=$zone" --worker=all \
    "--command=$1"
}

# The images have a Python that is too old; uv brings one.
everywhere "set -e
test -d $(quoted "$dir") || git clone $(quoted "$source" "$dir")
cd $(quoted "$dir")$checkout
test -x .venv/bin/python || {
  python3 -m pip install -q --user uv
  python3 -m uv venv -q --python=3.12 .venv
}
python3 -m uv pip install -q --python=.venv/bin/python -e '.[tpu${extras:+,$extras}]'"
everywhere "cd $(quoted "$dir") && bash launch/detached.sh train.log $(worker tpu)"
