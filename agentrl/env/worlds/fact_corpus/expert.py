"""Expert of the fact corpus: calls that show the gold evidence in order."""

from collections.abc import Iterator, Sequence

from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.corpus import Corpus, Fact
from agentrl.env.worlds.fact_corpus.questions import FactQuestion
from agentrl.env.worlds.fact_corpus.retrievers import AGGREGATE
from agentrl.text.tool_calls.base import Call
from agentrl.tool.base import Tool


def plan(
  corpus: Corpus, question: FactQuestion, tools: Sequence[Tool]
) -> tuple[list[Call], list[str]] | None:
  """Plans a call for each hop, and the passage or result to note of its answer.

  A set is one call where there is a tool for it, and otherwise one for each
  passage. For an unanswerable question the last call looks for what is missing.
  The first tool goes first; None where no call shows some of the evidence.
  """
  by_name = {tool.name: tool for tool in tools}
  evidence = questions.solve(corpus, question).evidence
  passages, end = questions.follow(corpus, question.start, question.path)
  retrievers = [x for x in tools if x.name != AGGREGATE]
  calls, notes = [], []
  whole = question.kind in questions.AGGREGATES and AGGREGATE in by_name
  for passage in evidence[: len(passages)] if whole else evidence:
    call = _search(corpus, passage, retrievers)
    if call is None:
      return None
    calls.append(call)
    notes.append(corpus.passages[passage])
  if whole:
    calls.append(Call(AGGREGATE, {'query': set_query(question, end)}))
    notes.append(by_name[AGGREGATE](**calls[-1].args))
  if question.kind == 'unanswerable':
    at = corpus.facts[passages[-1]].object if passages else question.start
    if not retrievers:
      return None
    query = f'{at} {question.path[-1]}'
    calls.append(Call(retrievers[0].name, {'query': query}))
    notes.append(f'No {question.path[-1]} of {at}.')
  return calls, notes


def set_query(question: FactQuestion, end: str) -> str:
  """Returns the query of a set, as the aggregate tool reads it."""
  kind = {'count': 'count', 'max': 'max age'}[question.kind]
  return f'{kind} {question.inverse} {end}'


def _search(
  corpus: Corpus, passage: int, retrievers: Sequence[Tool]
) -> Call | None:
  """Returns the first call whose answer has the passage as it stands."""
  for tool in retrievers:
    for query in queries(corpus.facts[passage]):
      if corpus.passages[passage] in tool(query=query).splitlines():
        return Call(tool.name, {'query': query})
  return None


def queries(fact: Fact) -> Iterator[str]:
  """Returns wordings without the object, which the agent does not have yet."""
  yield f'{fact.subject} {fact.relation}'
  yield f"{fact.subject}'s {fact.relation} is"
  yield f'{fact.relation} {fact.subject}'
  yield f'{fact.relation} of {fact.subject}'
  yield f'where is the {fact.relation} of {fact.subject}'
  yield fact.subject
