#!/usr/bin/env bash
# Starts a command that outlives the connection, once, and shows what it says.
#
#   launch/detached.sh LOG COMMAND...
#
# LOG is appended to; LOG.lock is held for as long as the command lives.

set -euo pipefail

log=$1
exec 9>"$log.lock"
if ! flock -n 9; then
  printf 'error: a run is still going on here; see %s in %s\n' "$log" \
    "$PWD" >&2
  exit 2
fi
touch "$log"
before=$(wc -c <"$log")
nohup "${@:2}" </dev/null >>"$log" 2>&1 &
command=$!
tail -F "--bytes=+$((before + 1))" "--pid=$command" "$log" 9>&- || true
code=0
wait "$command" || code=$?
exit "$code"
