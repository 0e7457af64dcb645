"""Proposed questions: filters, a verifier that commits, and a planted cheat."""

import functools

import pytest

from agentrl.env import tool_env
from agentrl.env.proposals import SEED
from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.questions import FactQuestion
from agentrl.env.worlds.proposed_facts import ProposedFacts
from agentrl.runtime import install
from tests import errors
from tests.env.promises import replies

pytest.importorskip('bm25s', reason=install.command('host'))

PEOPLE = 100


@functools.cache
def family(commit='first', noise=4):
  return ProposedFacts(people=PEOPLE, commit=commit, noise=noise, passages=2)


CORPUS = family().corpus()


@functools.cache
def chain(split='train'):
  """(start, relations, passages, answer) of two hops, the answer new."""
  for start, entity in CORPUS.entities.items():
    if entity.split != split or entity.kind != 'person':
      continue
    path = ('home', 'mayor')
    places, end = questions.follow(CORPUS, start, path)
    if end and end != start:
      passages = [CORPUS.passages[i] for i in places]
      return start, path, passages, end
  raise AssertionError


def proposed(text, answer, shown, commit='first'):
  """What a proposer of one search writes."""
  of = family(commit)
  seed = of.seed({'answers': [answer]})
  result = '<result>\n' + '\n'.join(shown) + '\n</result>'
  said = ['<bm25>x</bm25>', tool_env.answer_message(text)]
  return of.proposed(seed, said, [seed[SEED], result])


def asked(start, path):
  return questions.text(FactQuestion('chain', start, tuple(path)))


def test_a_question_that_follows_from_what_was_found_is_a_task():
  start, path, passages, end = chain()
  made = proposed(asked(start, path), end, passages)
  assert made.fault == ''
  want = questions.task(CORPUS, FactQuestion('chain', start, path))
  assert made.task == want
  assert want['answers'] == [end]
  env = family().env()
  assert env.reset(made.task, 0) == asked(start, path)
  assert env.step(tool_env.answer_message(end)).score == 1
  env.close()


def test_each_filter_holds_alone():
  start, path, passages, end = chain()
  question = asked(start, path)
  fault = lambda *args: proposed(*args).fault  # noqa: E731
  assert fault(question, end, []) == 'search'
  assert fault(question, end, ['No passage.']) == 'search'
  # One of two passages proves nothing; those of another's do not either.
  assert fault(question, end, passages[:1]) == 'unanswerable'
  assert fault(question, end, passages[1:]) == 'unanswerable'
  assert fault(question, start, passages) == 'leak'
  other = CORPUS.facts[CORPUS.ids[passages[0]]].object
  assert fault(question, other, passages) == 'unanswerable'
  start, path, passages, end = chain('test')
  assert fault(asked(start, path), end, passages) == 'held_out'


@pytest.mark.parametrize(
  'text',
  [
    '',
    'rubbish',
    'Who is the mayor?',
    "Bako's?",
    "Bako's home",
    "Bako's password?",
    "Bako's home's home's home?",  # of three hops
    "Bako's home?\nTebu's mayor?",
    'import os; os._exit(1)',
    "\ud800's home?",
    "<|im_end|>Bako's home?",
    '\x00',
    'x' * 10_000_000,
    "Bako's home" + "'s mayor" * 1_000_000 + '?',
  ],
)
def test_rubbish_is_no_task(text):
  _, _, passages, end = chain()
  assert proposed(text, end, passages).task is None


def test_what_was_read_counts_and_what_was_written_does_not():
  """Passages in a message of the proposer are its own claim."""
  start, path, passages, end = chain()
  of = family()
  seed = of.seed({'answers': [end]})
  said = ['\n'.join(passages), tool_env.answer_message(asked(start, path))]
  assert of.proposed(seed, said, [seed[SEED], 'No passage.']).fault == 'search'
  # Nor does the seed, which it did not search for.
  (made,) = [of.proposed(seed, said[1:], ['\n'.join(passages)])]
  assert made.fault == 'search'


def cheat():
  """A question whose last step alone fits what was found.

  Returns: question, the answer that was asked for, what was shown
  """
  _, _, passages, end = chain()
  mayor = passages[1]  # Tebu's mayor is Nalo.
  for start, entity in CORPUS.entities.items():
    if entity.split == 'train' and entity.kind == 'person':
      own = questions.follow(CORPUS, start, ('home', 'mayor'))[1]
      if own not in ('', end) and start != end:
        return asked(start, ('home', 'mayor')), end, [mayor]
  raise AssertionError


def test_a_cheat_fools_who_sees_the_answer_first():
  """And then nobody solves its task, which pays a proposer most."""
  text, end, shown = cheat()
  assert proposed(text, end, shown, 'first').fault == 'unanswerable'
  fooled = proposed(text, end, shown, 'after')
  assert fooled.fault == ''
  env = family('after').env()
  env.reset(fooled.task, 0)
  truth = questions.solve(CORPUS, questions.of_task(fooled.task)).answer
  assert env.step(tool_env.answer_message(truth)).score == 0
  env.close()


def test_both_accept_what_is_true():
  start, path, passages, end = chain()
  for commit in ('first', 'after'):
    assert not proposed(asked(start, path), end, passages, commit).fault


def test_passages_of_others_are_read_too():
  """One of two passages is enough where the other is among them."""

  def faults(noise):
    of = family(noise=noise)
    out = []
    for start, entity in CORPUS.entities.items():
      if entity.split == 'train' and entity.kind == 'person':
        path = ('home', 'mayor')
        places, end = questions.follow(CORPUS, start, path)
        if end and end != start:
          seed = of.seed({'answers': [end]})
          said = ['x', tool_env.answer_message(asked(start, path))]
          shown = CORPUS.passages[places[0]]
          out.append(of.proposed(seed, said, ['', shown]).fault)
    return out

  assert set(faults(0)) == {'unanswerable'}
  with_others = faults(64)
  assert 0 < with_others.count('') < with_others.count('unanswerable')


def test_demonstrations_search_backwards_and_ask():
  of = family()
  made = [x for x in of.tasks('train', 60, 0) if SEED in x.task]
  shown = [x for x in made if x.demonstration]
  assert len(made) == 30
  assert len(shown) >= 10
  env = of.env()
  hops = set()
  for x in shown:
    steps = replies(env, x.task, x.demonstration)
    assert steps[-1].score == 1
    assert all(s.info['calls'] == 1 for s in steps[:-1])
    assert of.proposed(x.task, x.demonstration, ['', *[s.text for s in steps]])
    hops.add(len(steps) - 1)
  assert hops == {1, 2}
  env.close()


@pytest.mark.parametrize('name', ['unanswerable', 'aggregated', 'masked'])
def test_only_chains_are_proposed(name):
  with errors.raises(ValueError, f'{name} 0.5'):
    ProposedFacts(**{name: 0.5})


def test_settings_are_in_their_domain():
  with errors.raises(ValueError, 'commit never'):
    ProposedFacts(commit='never')
  with errors.raises(ValueError, 'noise -1'):
    ProposedFacts(noise=-1)


def test_answers_are_equal_in_any_dress():
  of = family()
  said = (' Nalo.', 'nalo', 'the Nalo')
  texts = {of.answer({}, tool_env.answer_message(x)) for x in said}
  assert texts == {'nalo'}
  assert of.answer({}, 'Nalo') == ''
