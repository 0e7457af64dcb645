"""A gateway in a process of its own: `python -m tests.gateway.crowd_server N`.

It may open N files. Prints the address of a session and the key as JSON, and
ends with its input.
"""

import json
import resource
import sys

from tests.gateway.stub import opened


def main(files):
  _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
  resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
  with opened(calls=1000, row=1_000_000) as (_, client, _session):
    print(json.dumps([client.at.geturl(), client.key]), flush=True)
    sys.stdin.read()


if __name__ == '__main__':
  main(int(sys.argv[1]))
