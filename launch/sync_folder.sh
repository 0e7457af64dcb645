#!/usr/bin/env bash
# Runs a command with a folder that is kept elsewhere.
#
#   launch/sync_folder.sh HERE THERE COMMAND...
#
# THERE is copied to HERE at the start. Until the command ends HERE is copied to
# THERE again and again, and once more then. A bucket's cached mount is no place
# for a run itself: it sends a file when that is closed, and a run's metrics are
# open to its end. A checkpoint that was copied while it was written is known by
# its manifest, and the one before it is used.
# MIRROR_EVERY: seconds between copies, 60 if unset

set -euo pipefail

here=$1 there=$2
# What is newer here goes there, and what is no more here goes away there.
copy() {
  cp -ru --preserve=timestamps "$here/." "$there"
  (cd "$there" && find . -depth -print0) | while IFS= read -rd '' file; do
    [[ -e $here/$file ]] || rm -rf "${there:?}/$file"
  done
}

mkdir -p "$here" "$there"
cp -ru --preserve=timestamps "$there/." "$here"
"${@:3}" &
command=$!
trap 'kill -TERM "$command" 2>/dev/null || true' INT TERM HUP
while kill -0 "$command" 2>/dev/null; do
  sleep "${MIRROR_EVERY:-60}" &>/dev/null &
  pause=$!
  wait -n "$command" "$pause" || true
  kill "$pause" 2>/dev/null || true
  copy || true # a file may go away while it is copied
done
code=0
wait "$command" || code=$?
copy
exit "$code"
