#!/usr/bin/env bash
# Starts a run on hosts that ssh reaches, one process on each.
#
#   launch/hosts.sh --hosts=a,b [FLAGS] -- --config=FILE --workdir=/FOLDER ...
#
# --hosts=a,b        the hosts, the first one for process 0; localhost is this
#                    machine, as often as it is named
# --samplers=c,d     hosts of jobs that collect the batches of the run, which is
#                    told so (staleness.jobs); it goes on if one of them fails
# --port=12355       free on the first host; the others reach it there
# --dir=FOLDER       of the repository on every host, this one if not given
# --python=PROGRAM   in that folder, .venv/bin/python if not given
# --logs=FOLDER      of this machine, for what each process says: logs
# --env=NAME=VALUE   for every process; may be repeated
# --dry-run          prints what would be run, a line for every process
#
# It stays until the run ends. Ctrl-C, SIGTERM, or its own end asks every
# process to stop with the state saved; the same command goes on.

set -euo pipefail
# shellcheck source=launch/common.sh
source "${BASH_SOURCE[0]%/*}/common.sh"

hosts='' samplers='' port=12355 dir=$PWD python=.venv/bin/python logs=logs
parse 'hosts samplers port dir python logs' "$@"
need hosts dir python logs
check_number port
IFS=, read -ra all <<<"$hosts"
trainers=${#all[@]}
IFS=, read -ra more <<<"$samplers"
all+=(${more[@]+"${more[@]}"})
for host in "${all[@]}"; do
  [[ $host =~ ^[A-Za-z0-9_.@][A-Za-z0-9_.@-]*$ ]] ||
    fail "'$host' of --hosts=$hosts or --samplers=$samplers is not a host;\
 write them as a,b,c"
  [[ $host == localhost || ${all[0]} != localhost ]] ||
    fail "--hosts=$hosts: $host does not reach localhost; name this machine"
done
first=${all[0]##*@}
if ((${#more[@]})); then
  address=${first/#localhost/127.0.0.1}
  words+=(--config.staleness.jobs "--config.staleness.address=$address")
fi

# What host number $1 runs.
process() {
  local started=("${env[@]:-env}") word
  if (($1 < trainers)); then
    started+=(
      "JAX_COORDINATOR_ADDRESS=$first:$port"
      "JAX_NUM_PROCESSES=$trainers" "JAX_PROCESS_ID=$1"
      bash launch/tied_to_stdin.sh "$python" -m experiments.train "${words[@]}"
    )
  else
    for word in "${words[@]}"; do
      [[ $word != --workdir=* ]] || started+=(
        bash launch/tied_to_stdin.sh "$python" -m experiments.sampler "$word"
      )
    done
  fi
  printf 'cd %s && exec %s' "$(quoted "$dir")" "$(quoted "${started[@]}")"
}

# Runs or prints it.
start() {
  local host=${all[$1]}
  if [[ $host == localhost ]]; then
    run bash -c "$(process "$1")"
  else
    run ssh -o BatchMode=yes "$host" "$(process "$1")"
  fi
}

# Process $1 with its log, the first one shown; one that fails ends the others.
keep() {
  local log=$logs/process-$1.log code=0
  if (($1)); then exec >/dev/null; else exec >&2; fi
  start "$1" 2>&1 | tee -a "$log" || code=$?
  if ((code && code != 130 && $1 >= trainers)); then
    printf 'sampler %s on %s ended with %s; see %s\n' \
      "$1" "${all[$1]}" "$code" "$log" >&2
    code=0 # the run goes on without it
  elif ((code && code != 130)); then
    printf 'process %s on %s ended with %s; see %s\n' \
      "$1" "${all[$1]}" "$code" "$log" >&2
    kill -TERM $$ 2>/dev/null || true
  fi
  echo "$code" >"$folder/$1" # bash forgets some that end during a trap
}

if [[ $dry ]]; then
  for i in "${!all[@]}"; do start "$i"; done
  exit
fi

mkdir -p "$logs"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/held"
exec 7<>"$folder/held" # while it is open, so is every tied_to_stdin.sh
trap 'exec 7>&-' INT TERM HUP
set -m # groups of their own: Ctrl-C is for this script alone
pids=()
for i in "${!all[@]}"; do
  keep "$i" <"$folder/held" 7>&- &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  while kill -0 "$pid" 2>/dev/null; do wait "$pid" || true; done
done
status=0
for i in "${!all[@]}"; do
  code=1
  [[ ! -e $folder/$i ]] || code=$(<"$folder/$i")
  # A failure says more than 130, which is: stopped as asked, goes on.
  ((code == 0 || (status && status != 130))) || status=$code
done
exit "$status"
