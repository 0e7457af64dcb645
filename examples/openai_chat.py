"""An agent on OpenAI's chat completions, with a tool."""

import json

import openai

from examples import calculator

TOOL = {
  'type': 'function',
  'function': {
    'name': calculator.NAME,
    'description': calculator.DESCRIPTION,
    'parameters': calculator.SCHEMA,
  },
}


def play(address: str, key: str, task: dict) -> None:
  client = openai.OpenAI(base_url=f'{address}/v1', api_key=key)
  messages = [
    {'role': 'system', 'content': calculator.SYSTEM},
    {'role': 'user', 'content': task['question']},
  ]
  for _ in range(calculator.TURNS):
    reply = client.chat.completions.create(
      model='policy', messages=messages, tools=[TOOL]
    )
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls or []:
      result = calculator.add(json.loads(call.function.arguments))
      messages.append(
        {'role': 'tool', 'tool_call_id': call.id, 'content': result}
      )
    if not message.tool_calls:
      break
  calculator.post_reward(address, key, task, message.content or '')
