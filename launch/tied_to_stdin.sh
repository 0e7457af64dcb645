#!/usr/bin/env bash
# Runs a command for as long as its own standard input is open.
#
#   launch/tied_to_stdin.sh COMMAND...
#
# When that ends, because hosts.sh closed it or is gone, or when it is asked to
# stop, the command gets one SIGTERM, which a run takes as: save the state, and
# end. What the command says and how it ends are passed on.

set -euo pipefail
set -m # the command is a group of its own: Ctrl-C must not reach it twice

exec 3<&0
"$@" </dev/null 3<&- &
command=$!
ask() { kill -TERM "$command" 2>/dev/null || true; }
trap ask INT TERM HUP
{
  while read -r _ <&3; do :; done
  ask
} &
watch=$!
disown "$watch" # its end is no news

while kill -0 "$command" 2>/dev/null; do wait "$command" || true; done
code=0
wait "$command" || code=$?
kill "$watch" 2>/dev/null || true
exit "$code"
