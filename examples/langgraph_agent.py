"""An agent of LangGraph, with a tool."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from examples import calculator


def add(a: float, b: float) -> str:
  """Adds two numbers."""
  return calculator.add({'a': a, 'b': b})


def play(address: str, key: str, task: dict) -> None:
  model = ChatOpenAI(model='policy', base_url=f'{address}/v1', api_key=key)
  agent = create_agent(model, [add], system_prompt=calculator.SYSTEM)
  state = agent.invoke({'messages': [('user', task['question'])]})
  calculator.post_reward(address, key, task, state['messages'][-1].content)
