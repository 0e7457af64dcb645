"""An MCP server without a package: it sends what a file says, right or wrong.

  python written_server.py FILE

FILE is JSON: `pages`, lists of tools with the cursor of the next page, and
`answers` by name of a tool. An answer is the result of a call, or a word:
'silent' sends none, 'leave' ends the server, 'garbage' is no JSON.
"""

import json
import pathlib
import sys

SAID = json.loads(pathlib.Path(sys.argv[1]).read_text())


def send(message):
  print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)


def answered(id, result):
  send({'id': id, 'result': result})


def handle(id, method, params):
  if method == 'initialize':
    about = {'name': 'written', 'version': '1'}
    abilities = {'tools': {'listChanged': True}}
    answered(
      id,
      {
        'protocolVersion': params['protocolVersion'],
        'capabilities': abilities,
        'serverInfo': about,
      },
    )
  elif method == 'tools/list':
    page = int(params.get('cursor') or 0)
    tools, following = SAID['pages'][page]
    more = {} if following is None else {'nextCursor': following}
    answered(id, {'tools': tools, **more})
  elif method == 'tools/call':
    call(id, SAID['answers'][params['name']])
  else:
    send({'id': id, 'error': {'code': -32601, 'message': 'not known'}})


def call(id, answer):
  if answer == 'leave':
    raise SystemExit(1)
  if answer == 'garbage':
    print('{"jsonrpc": nothing of it', flush=True)
    answer = {'content': [{'type': 'text', 'text': 'after garbage'}]}
  if answer == 'changed':
    send({'method': 'notifications/tools/list_changed'})
    answer = {'content': [{'type': 'text', 'text': 'changed'}]}
  if isinstance(answer, dict) and 'error' in answer:
    send({'id': id, **answer})
  elif answer != 'silent':
    answered(id, answer)


for line in sys.stdin:
  message = json.loads(line)
  if 'id' in message and 'method' in message:
    handle(message['id'], message['method'], message.get('params') or {})
