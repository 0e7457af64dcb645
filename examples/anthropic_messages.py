"""An agent on Anthropic's messages, with a tool."""

import anthropic

from examples import calculator

TOOL = {
  'name': calculator.NAME,
  'description': calculator.DESCRIPTION,
  'input_schema': calculator.SCHEMA,
}


def play(address: str, key: str, task: dict) -> None:
  client = anthropic.Anthropic(base_url=address, api_key=key)
  messages = [{'role': 'user', 'content': task['question']}]
  for _ in range(calculator.TURNS):
    reply = client.messages.create(
      model='policy',
      max_tokens=256,
      system=calculator.SYSTEM,
      messages=messages,
      tools=[TOOL],
    )
    messages.append({'role': 'assistant', 'content': reply.content})
    calls = [x for x in reply.content if x.type == 'tool_use']
    results = [
      {
        'type': 'tool_result',
        'tool_use_id': x.id,
        'content': calculator.add(x.input),
      }
      for x in calls
    ]
    if not calls:
      break
    messages.append({'role': 'user', 'content': results})
  text = ''.join(x.text for x in reply.content if x.type == 'text')
  calculator.post_reward(address, key, task, text)
