"""Demonstrations of a careful searcher: calls beside those that are needed.

  <bm25>home</bm25>          vague: it shows something else
  <bm25>Bako home</bm25>     needed
  <bm25>home Bako</bm25>     again, in other words: it shows the same passage

What is needed stays in order, and nothing else is shown that leads on.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agentrl.env.worlds.fact_corpus import expert
from agentrl.env.worlds.fact_corpus.corpus import Corpus
from agentrl.text.tool_calls.base import Call
from agentrl.tool.base import Tool


class Searched(NamedTuple):
  """A call, and whether it was needed."""

  call: Call
  needed: bool


def searched(
  calls: Sequence[Call],
  evidence: Sequence[int],
  corpus: Corpus,
  tools: Sequence[Tool],
  *,
  rate: float,
  rng: np.random.Generator,
) -> Iterator[Searched]:
  """Yields the calls, each with a chance of a vague one before and a check.

  Args:
    evidence: the passage that each call shows
    rate: chance of a vague call before a call, and of another one after it
  """
  texts = [corpus.passages[i] for i in evidence]
  for call, passage in zip(calls, evidence, strict=True):
    before, after = rng.random(2) < rate
    vague = Call(call.name, {'query': corpus.facts[passage].relation})
    if before and not any(_shows(vague, text, tools) for text in texts):
      yield Searched(vague, needed=False)
    yield Searched(call, needed=True)
    check = _again(call, passage, corpus, tools) if after else None
    if check:
      yield Searched(check, needed=False)


def _again(
  call: Call, passage: int, corpus: Corpus, tools: Sequence[Tool]
) -> Call | None:
  """Finds the first other call that shows the passage."""
  for query in expert.queries(corpus.facts[passage]):
    for tool in tools:
      other = Call(tool.name, {'query': query})
      if other != call and _shows(other, corpus.passages[passage], tools):
        return other
  return None


def _shows(call: Call, text: str, tools: Sequence[Tool]) -> bool:
  tool = next(x for x in tools if x.name == call.name)
  return text in tool(**call.args).splitlines()
