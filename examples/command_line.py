"""An agent of the standard library, run as a command.

The task is on its standard input, the address and the key in its environment.
"""

import json
import os
import sys
import urllib.request

ADDRESS, KEY = os.environ['AGENTRL_ADDRESS'], os.environ['OPENAI_API_KEY']
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(path: str, body: dict) -> dict:
  headers = {'Authorization': f'Bearer {KEY}'}
  raw = json.dumps(body).encode()
  request = urllib.request.Request(f'{ADDRESS}/{path}', raw, headers)
  with OPENER.open(request) as response:
    return json.load(response)


def main() -> None:
  task = json.load(sys.stdin)
  messages = [{'role': 'user', 'content': task['question']}]
  reply = post('v1/chat/completions', {'messages': messages})
  answer = reply['choices'][0]['message']['content']
  post('reward', {'reward': float(task['answer'] in answer)})


main()
