"""An agent of OpenAI's Agents SDK, with a tool."""

import asyncio

import agents
import openai

from examples import calculator

agents.set_tracing_disabled(True)


@agents.function_tool(strict_mode=False)
def add(a: float, b: float) -> str:
  """Adds two numbers."""
  return calculator.add({'a': a, 'b': b})


def play(address: str, key: str, task: dict) -> None:
  client = openai.AsyncOpenAI(base_url=f'{address}/v1', api_key=key)
  agent = agents.Agent(
    name='sums',
    instructions=calculator.SYSTEM,
    model=agents.OpenAIResponsesModel('policy', client),
    tools=[add],
  )
  run = agents.Runner.run(agent, task['question'], max_turns=calculator.TURNS)
  result = asyncio.run(run)
  calculator.post_reward(address, key, task, result.final_output)
