#!/usr/bin/env bash
# This machine's process of a run, started by the platform on every machine.
#
#   launch/worker.sh PLATFORM --config=... --workdir=...
#
# PLATFORM says who knows which process this is and where the first one listens:
#   tpu    the metadata server of a TPU VM
#   gke    TPU_WORKER_ID, TPU_WORKER_HOSTNAMES and MEGASCALE_..., set by GKE
#   sky    SKYPILOT_NODE_RANK, SKYPILOT_NODE_IPS, SKYPILOT_NUM_NODES
#   slurm  SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_NODELIST, SLURM_JOB_ID
# It is put into JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID.
# PYTHON is what runs, .venv/bin/python if unset.

set -euo pipefail

PORT=8482 # free wherever only this run has the machine

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

# A variable that the platform sets.
told() {
  [[ ${!1:-} ]] || fail "$1 is not set: this is no process of $platform"
  printf '%s' "${!1}"
}

metadata() {
  local from=http://metadata.google.internal/computeMetadata/v1
  curl -sSf -H 'Metadata-Flavor: Google' "$from/instance/attributes/$1" ||
    fail "the metadata server does not tell $1: this is no TPU VM"
}

# place HOST PORT COUNT INDEX
place() {
  export JAX_COORDINATOR_ADDRESS="$1:$2" JAX_NUM_PROCESSES=$3 JAX_PROCESS_ID=$4
}

# Workers of one slice are HOST, HOST:PORT or NAME:ID:ADDRESS, with commas.
of_tpu() {
  local all first id
  all=$(metadata worker-network-endpoints)
  id=$(metadata agent-worker-number)
  first=${all%%,*}
  place "${first##*:}" "$PORT" "$(count "$all")" "$id"
}

of_gke() {
  local all id first each slices=${MEGASCALE_NUM_SLICES:-1}
  all=${TPU_PROCESS_ADDRESSES:-}
  [[ $all ]] || all=$(told TPU_WORKER_HOSTNAMES)
  id=$(told TPU_WORKER_ID)
  first=${MEGASCALE_COORDINATOR_ADDRESS:-${all%%,*}}
  each=$(count "$all")
  place "${first%%:*}" "$PORT" "$((each * slices))" \
    "$((id + each * ${MEGASCALE_SLICE_ID:-0}))"
}

of_sky() {
  local ips number rank
  ips=$(told SKYPILOT_NODE_IPS)
  number=$(told SKYPILOT_NUM_NODES)
  rank=$(told SKYPILOT_NODE_RANK)
  place "${ips%%$'\n'*}" "$PORT" "$number" "$rank"
}

# Jobs may share a node: the port is the job's.
of_slurm() {
  local nodes job number rank
  nodes=$(told SLURM_JOB_NODELIST)
  nodes=$(scontrol show hostnames "$nodes")
  job=$(told SLURM_JOB_ID)
  number=$(told SLURM_NTASKS)
  rank=$(told SLURM_PROCID)
  place "${nodes%%$'\n'*}" "$((20000 + job % 12000))" "$number" "$rank"
}

# How many words there are between commas.
count() {
  local commas=${1//[^,]/}
  printf '%s' "$((${#commas} + 1))"
}

platform=${1:-}
case $platform in
  tpu | gke | sky | slurm) "of_$platform" ;;
  *) fail "'$platform' is not a platform; write tpu, gke, sky or slurm" ;;
esac
exec "${PYTHON:-.venv/bin/python}" -m experiments.train "${@:2}"
