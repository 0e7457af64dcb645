"""Items made of texts, and services that must or must not be used."""

from agentrl import registry
from agentrl.judge.item import Exchange, Item
from tests.judge.items import asked


class Service:
  """Answers from a function of the prompt, and notes the prompts."""

  def __init__(self, answer=None):
    self.prompts: list[str] = []
    self._answer = answer

  def __call__(self, prompt: str) -> str:
    self.prompts.append(prompt)
    if self._answer is None:
      raise AssertionError('nobody is there')
    return self._answer(prompt)

  def cached(self, content, compute):
    return compute()


def item(*texts, task=None, turn=-1, outcome=0.0) -> Item:
  """An item of texts, in turns: observation, message, observation, ..."""
  pairs = zip(texts[::2], texts[1::2], strict=True)
  turns = tuple(Exchange(seen, message, {}) for seen, message in pairs)
  return Item(task or {}, turns, turn, outcome)


def spoken(message, **task) -> Item:
  """A trajectory of one message."""
  return item('go', message, task=task)


def score(name, what, ask=None, **hp):
  """Returns what a registered judge scores."""
  return registry.bind('judge', name, hp)(asked(what, ask or Service()))
