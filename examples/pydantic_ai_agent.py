"""An agent of Pydantic AI, with a tool."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from examples import calculator


def add(a: float, b: float) -> str:
  """Adds two numbers."""
  return calculator.add({'a': a, 'b': b})


def play(address: str, key: str, task: dict) -> None:
  provider = OpenAIProvider(base_url=f'{address}/v1', api_key=key)
  agent = Agent(
    OpenAIChatModel('policy', provider=provider),
    system_prompt=calculator.SYSTEM,
    tools=[add],
    retries=calculator.TURNS,
  )
  result = agent.run_sync(task['question'])
  calculator.post_reward(address, key, task, result.output)
