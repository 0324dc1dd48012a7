#!/usr/bin/env python3
"""Bookmarks that follow the branch, kept through `watcher ext`.

    bookmarks.py SESSION add TEXT
    bookmarks.py SESSION list

No packages are needed. The watcher is `watcher`, or what $WATCHER_BIN names.
"""

import json
import os
import subprocess
import sys

NOT_THERE, HELD = 3, 6
TYPE, SCHEMA = "bookmarks", "1"


def ext(session, *words, data=None):
    command = [os.environ.get("WATCHER_BIN", "watcher"), "ext", *words, "--type", TYPE, "--session", session]
    return subprocess.run(command, input=data, capture_output=True, encoding="utf-8")


def load(session):
    done = ext(session, "get", "--schema", SCHEMA)
    if done.returncode == NOT_THERE and "no state" in done.stderr:
        return []
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def save(session, bookmarks):
    done = ext(session, "save", "--schema", SCHEMA, data=json.dumps(bookmarks))
    if done.returncode == HELD:
        # The agent has the session: what we wrote would be left behind. Its own extension can do it.
        sys.exit(f"not now: {done.stderr.strip()}")
    if done.returncode != 0:
        sys.exit(done.stderr.strip())


def main():
    match sys.argv[1:]:
        case [session, "add", text]:
            save(session, load(session) + [{"text": text}])
        case [session, "list"]:
            for number, bookmark in enumerate(load(session), 1):
                print(f"{number}. {bookmark['text']}")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
