"""An agent of smolagents, which rewrites its history: calls are branches."""

import smolagents
from smolagents.agents import EMPTY_PROMPT_TEMPLATES

from examples import calculator

# Its own, of ten thousand characters, are for models that know no tools.
PROMPTS = EMPTY_PROMPT_TEMPLATES | {'system_prompt': calculator.SYSTEM}


@smolagents.tool
def add(a: float, b: float) -> str:
  """Adds two numbers.

  Args:
    a: the first
    b: the second
  """
  return calculator.add({'a': a, 'b': b})


def play(address: str, key: str, task: dict) -> None:
  model = smolagents.OpenAIServerModel(
    'policy', api_base=f'{address}/v1', api_key=key
  )
  agent = smolagents.ToolCallingAgent(
    tools=[add],
    model=model,
    prompt_templates=PROMPTS,
    max_steps=calculator.TURNS,
    verbosity_level=0,
  )
  answer = agent.run(task['question'])
  calculator.post_reward(address, key, task, str(answer))
