"""An agent on OpenAI's responses, with a tool."""

import json

import openai

from examples import calculator

TOOL = {
  'type': 'function',
  'name': calculator.NAME,
  'description': calculator.DESCRIPTION,
  'parameters': calculator.SCHEMA,
}


def play(address: str, key: str, task: dict) -> None:
  client = openai.OpenAI(base_url=f'{address}/v1', api_key=key)
  items = [{'role': 'user', 'content': task['question']}]
  for _ in range(calculator.TURNS):
    reply = client.responses.create(
      model='policy',
      instructions=calculator.SYSTEM,
      input=items,
      tools=[TOOL],
      store=False,
    )
    items += [x.model_dump(exclude_none=True) for x in reply.output]
    calls = [x for x in reply.output if x.type == 'function_call']
    for call in calls:
      result = calculator.add(json.loads(call.arguments))
      output = {'type': 'function_call_output', 'output': result}
      items.append(output | {'call_id': call.call_id})
    if not calls:
      break
  calculator.post_reward(address, key, task, reply.output_text)
