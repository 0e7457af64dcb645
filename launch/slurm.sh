#!/usr/bin/env bash
# Submits a run to Slurm, one process on each node with all GPUs it was given.
#
#   launch/slurm.sh --name=RUN --nodes=2 --gpus=8 --time=24:00:00 [FLAGS] \
#     -- --config=FILE --workdir=/FOLDER ...
#
# --name=RUN         of the job; jobs of one name run one after another
# --nodes=1          --gpus=8 on each --cpus=8 for each process
# --time=TIME        the limit, as sbatch has it
# --partition=NAME   --account=NAME: the cluster's own if not given
# --logs=logs        folder for what the processes say, one file for the name
# --env=NAME=VALUE   for every process; may be repeated
# --dry-run          prints what would be run
#
# Start it in the repository, on a file system that the nodes share. Three
# minutes before the limit the run saves its state and ends; the same command
# goes on, and may be given several times at once: the jobs wait for each other.

set -euo pipefail
# shellcheck source=launch/common.sh
source "${BASH_SOURCE[0]%/*}/common.sh"

name='' nodes=1 gpus=8 cpus=8 time='' partition='' account='' logs=logs
parse 'name nodes gpus cpus time partition account logs' "$@"
need name time logs
check_name "$name"
check_number nodes gpus cpus

more=()
[[ ! $partition ]] || more+=("--partition=$partition")
[[ ! $account ]] || more+=("--account=$account")
[[ $logs != *%* ]] || fail "--logs=$logs: % means something to Slurm"
run mkdir -p "$logs" # sbatch does not, and the job would fail in silence
run sbatch "--job-name=$name" --dependency=singleton "--nodes=$nodes" \
  --ntasks-per-node=1 "--gpus-per-node=$gpus" "--cpus-per-task=$cpus" \
  "--time=$time" "${more[@]}" --requeue --signal=TERM@180 \
  --open-mode=append "--output=$logs/$name.log" \
  "--wrap=srun --kill-on-bad-exit=1 --cpus-per-task=$cpus $(worker slurm)"
