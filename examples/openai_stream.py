"""A chat of two turns that is read as it comes."""

import openai

from examples import calculator


def play(address: str, key: str, task: dict) -> None:
  client = openai.OpenAI(base_url=f'{address}/v1', api_key=key)
  messages = [{'role': 'user', 'content': task['question']}]
  for more in ('Are you sure? Answer again.', None):
    stream = client.chat.completions.create(
      model='policy', messages=messages, stream=True
    )
    parts = [x.choices[0].delta.content or '' for x in stream if x.choices]
    messages.append({'role': 'assistant', 'content': ''.join(parts)})
    if more:
      messages.append({'role': 'user', 'content': more})
  calculator.post_reward(address, key, task, messages[-1]['content'])
