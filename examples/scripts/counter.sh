#!/bin/sh
# Counts how often it was run on this branch of a session, kept through `watcher ext`: counter.sh SESSION
set -u
watcher=${WATCHER_BIN:-watcher}
session=${1:?counter.sh SESSION}

count=$("$watcher" ext get --type counter.sh --schema 1 --session "$session" 2>/dev/null)
case $? in
0) ;;
3) count=0 ;; # no state yet, or no session: saving tells which
*) exit 1 ;;
esac
count=$((count + 1))
echo "$count" | "$watcher" ext save --type counter.sh --schema 1 --session "$session" >/dev/null || exit
echo "$count"
