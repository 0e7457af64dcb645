"""An agent of LangGraph, with a tool."""

from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from examples import calculator


def add(a: float, b: float) -> str:
  """Adds two numbers."""
  return calculator.add({'a': a, 'b': b})


def play(address: str, key: str, task: dict) -> None:
  model = ChatOpenAI(model='policy', base_url=f'{address}/v1', api_key=key)
  agent = create_react_agent(model, [add], prompt=calculator.SYSTEM)
  state = agent.invoke({'messages': [('user', task['question'])]})
  calculator.post_reward(address, key, task, state['messages'][-1].content)
