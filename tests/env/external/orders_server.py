"""A server of MCP, on standard input or, `orders_server.py PORT`, at a port."""

import os
import sys

from mcp.server import MCPServer

server, seen = MCPServer('orders'), []


@server.tool()
def orders(name: str) -> int:
  """How many orders a customer has."""
  seen.append(name)
  if name == 'nobody':
    raise ValueError('there is no such customer')
  return len(name) + 10 * len(seen)


@server.tool()
def leave() -> str:
  """Ends the server."""
  os._exit(3)


if len(sys.argv) > 1:
  server.run('streamable-http', port=int(sys.argv[1]))
else:
  server.run()
