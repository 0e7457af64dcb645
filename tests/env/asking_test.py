"""What messages ask a memory, and what the tool answers by itself."""

import dataclasses

import pytest

from agentrl.env import asking
from agentrl.env.asking import AsksMemory, Experience
from agentrl.env.worlds.fact_corpus.env import FactCorpus
from agentrl.env.worlds.proposed_facts import ProposedFacts
from agentrl.runtime import install
from agentrl.text.tool_calls import FORMATS, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool import base
from tests import errors
from tests.env.promises import replies

pytest.importorskip('bm25s', reason=install.command('host'))
FAMILY = FactCorpus(people=100, experience=True)
ASK = '<experience>{}</experience>'


def test_the_tool_says_that_nothing_else_is_known():
  (answer,) = base.run([Call('experience', {'query': 'home?'})], [Experience()])
  assert (answer.text, answer.fault) == (asking.NOTHING_ELSE, '')
  for query in ('', ' \n', 'x' * (asking.MOST + 1), 'x' * 10_000_000):
    call = Call('experience', {'query': query})
    (answer,) = base.run([call], [Experience()])
    assert answer.fault == 'arguments'
    assert len(answer.text) < 200


@pytest.mark.parametrize('name', FORMATS)
def test_a_query_is_read_out_of_a_call_in_every_format(name):
  family = dataclasses.replace(FAMILY, format=name)
  write = format_of(name).write
  ask = Call('experience', {'query': "Bako's home's mayor?"})
  look = Call('bm25', {'query': 'Bako home'})
  assert family.asked(write([ask])) == "Bako's home's mayor?"
  assert family.asked(write([look, ask])) == "Bako's home's mayor?"
  assert family.asked(write([look])) == ''
  assert family.asked('hm') == family.asked('') == ''
  off = dataclasses.replace(family, experience=False)
  assert off.asked(write([ask])) == ''
  assert isinstance(family, AsksMemory)
  assert (family.asks, off.asks) == (True, False)


def test_the_first_call_that_is_answered_asks():
  """And no note, thought or call that the environment does not make."""
  first, second = ASK.format('a'), ASK.format('b')
  assert FAMILY.asked(first + second) == 'a'
  assert FAMILY.asked(ASK.format('') + second) == 'b'
  assert FAMILY.asked(ASK.format('x' * 1001) + second) == 'b'
  assert FAMILY.asked(f'<note>{first}</note>{second}') == 'b'
  assert FAMILY.asked(f'<think>{first}</think>{second}') == 'b'
  assert FAMILY.asked(f'<note>{first}</note>') == ''
  look = '<bm25>x</bm25>'
  assert FAMILY.asked(look * 15 + first) == 'a'
  assert FAMILY.asked(look * 16 + first) == ''


HOSTILE = (
  ASK.format(''),
  ASK.format(' \n '),
  ASK.format('x' * 10_000_000),
  '<experience>' * 1000,
  '<experience>' + 'x' * 1_000_000,
  ASK.format('\ud800'),
  ASK.format('<eot><pad><bos>'),
  ASK.format('</think>'),
  ASK.format(ASK.format('x')),
  ASK.format('\0'),
  ASK.format('x') * 1000,
)


def test_hostile_queries_cost_their_call_and_no_more():
  (task,) = FAMILY.tasks('train', 1, 0)
  said = replies(FAMILY.env(), task.task, [*HOSTILE, *task.demonstration])
  for message, reply in zip(HOSTILE, said, strict=False):
    query = FAMILY.asked(message)
    assert len(query) <= asking.MOST
    assert not reply.done
    assert len(reply.text) < 2000
    heard = asking.NOTHING_ELSE in reply.text
    assert heard == bool(query)
  assert said[-1].score == 1


def test_without_the_tool_a_call_of_it_is_answered_as_any_other_text():
  plain = FactCorpus(people=100)
  (task,) = plain.tasks('train', 1, 0)
  (reply,) = replies(plain.env(), task.task, [ASK.format('x')])
  assert reply.invalid
  assert asking.NOTHING_ELSE not in reply.text


def test_demonstrations_ask_first_and_else_are_the_same():
  for fields in (
    dict(evidence=True, careful=0.5),
    dict(notes=True, unanswerable=0.3),
    dict(team=True),
    dict(thoughts=True),
    dict(subgoals=True),
    dict(retrievers='aggregate bm25', aggregated=1.0),
    dict(format='hermes', teach=True),
  ):
    plain = FactCorpus(people=100, **fields)
    asks = dataclasses.replace(plain, experience=True)
    assert 'experience' not in plain.system
    assert ('experience' in asks.system) == plain.teach
    pairs = [plain.tasks('train', 8, 0), asks.tasks('train', 8, 0)]
    for own, other in zip(*pairs, strict=True):
      assert (other.task, other.key) == (own.task, own.key)
      first, *rest = other.demonstration
      assert asks.asked(first) == own.task['question']
      *calls, end = own.demonstration
      assert rest[:-1] == calls
      answer, _, proof = end.partition('<evidence>')
      turns = proof.removesuffix('</evidence>').split()
      later = ' '.join(str(int(k) + 1) for k in turns)
      proof = f'<evidence>{later}</evidence>' if proof else ''
      assert rest[-1] == answer + proof
      env = asks.env()
      steps = replies(env, other.task, other.demonstration)
      env.close()
      total = {x: sum(r.info[x] for r in steps) for x in asks.columns}
      assert steps[-1].score == 1
      assert not any(r.invalid for r in steps)
      assert total['calls'] == len(calls) + 1
      assert total['progress'] == pytest.approx(1)
      shown = sum(total[f'calls_{x}'] for x in asks.retrievers.split())
      assert shown == len(calls)


def test_a_marked_call_is_the_one_that_asks():
  message = f'<note>{ASK.format("a")}</note>{ASK.format("b")}'
  parts = [x for x in FAMILY.spans(message) if x.part == 'argument']
  assert [message[x.start : x.end] for x in parts] == ['b']


def test_questions_that_are_proposed_have_no_such_tool():
  with errors.raises(ValueError, 'experience True'):
    ProposedFacts(experience=True)
