"""Demonstrations by a team: one trace with a tag before what each role says.

  <note>planner: home, mayor</note><note>searcher</note><bm25>Bako home</bm25>
  <note>reader: Bako's home is Tebu.</note><note>searcher</note>...
  <note>reader: Tebu's mayor is Nalo.</note><note>writer</note>...

The team is scripted: a planner that names the relations to follow, a searcher,
a reader that notes what a search has shown, and a writer. Its trace is that of
one agent (Chain-of-Agents, arXiv 2508.13167). Tags are plain text.
"""

from collections.abc import Sequence

from agentrl.env.worlds.fact_corpus.questions import FactQuestion


def tags(question: FactQuestion, read: Sequence[str]) -> list[str]:
  """Returns the text before each message: one more than calls.

  Args:
    read: of the answer to each call, what is noted
  """
  planned = filter(None, (*question.path, question.inverse))
  before = [_note('planner', ', '.join(planned))]
  before += [_note('reader', text) for text in read]
  acting = ['searcher'] * len(read) + ['writer']
  return [x + _note(role) for x, role in zip(before, acting, strict=True)]


def _note(role: str, text: str = '') -> str:
  return f'<note>{role}: {text}</note>' if text else f'<note>{role}</note>'
