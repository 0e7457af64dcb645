"""A world of another family, played by an agent of Pydantic AI.

For --config.env.world=countdown and the like: what the agent says is a move,
and what the world shows is what it is told next.
"""

from collections import Counter

from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from agentrl.env.files.program import world_of
from examples import calculator


def play(address: str, key: str, task: dict) -> None:
  provider = OpenAIProvider(base_url=f'{address}/v1', api_key=key)
  agent = Agent(OpenAIChatModel('policy', provider=provider))
  env, text = world_of(task)
  history, step, terms = [], None, Counter()
  while step is None or not step.done:
    try:
      result = agent.run_sync(text, message_history=history)
    except ModelHTTPError:  # no calls left
      break
    history, step = result.all_messages(), env.step(result.output)
    text = step.text
    terms.update(step.info)  # numbers of the turn, for env.terms
  if step:  # else the session's limits admitted no call at all
    earned = {'reward': step.reward, 'score': step.score}
    calculator.post(address, key, earned | {'terms': terms})
