"""Traces of a team: who speaks in which message, and what of."""

from agentrl.env.worlds.fact_corpus import team
from agentrl.env.worlds.fact_corpus.questions import FactQuestion


def test_every_role_speaks_where_it_acts():
  chain = FactQuestion('chain', 'Bako', ('home', 'mayor'))
  assert team.tags(
    chain, ["Bako's home is Tebu.", "Tebu's mayor is Nalo."]
  ) == [
    '<note>planner: home, mayor</note><note>searcher</note>',
    "<note>reader: Bako's home is Tebu.</note><note>searcher</note>",
    "<note>reader: Tebu's mayor is Nalo.</note><note>writer</note>",
  ]
  of_set = FactQuestion('count', 'Tebu', (), 'home')
  assert team.tags(of_set, ['2']) == [
    '<note>planner: home</note><note>searcher</note>',
    '<note>reader: 2</note><note>writer</note>',
  ]
