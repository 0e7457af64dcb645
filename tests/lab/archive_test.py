"""An archive that lasts: its steps by hand, and a search cut off anywhere."""

import json

import numpy as np
import pytest

from agentrl.lab import archive as lib
from agentrl.lab.archive import Archive, Entry, Verdict
from agentrl.service.base import ServiceFault
from tests import errors


def evaluate(text, seed):
  """Is worth its number of letters a, with noise; is refused without any."""
  if 'a' not in text:
    return Verdict(0.0, 0, 'no a')
  noise = np.random.default_rng(seed).random() / 10
  return Verdict(text.count('a') + noise, 4, f'{len(text)} letters')


def propose(asked, *, seed):
  """Adds a letter to the best; sometimes begins anew."""
  rng = np.random.default_rng(seed)
  known = lib.read(asked)
  base = known[-1].text if rng.random() < 0.8 else ''
  return base + 'ab'[rng.integers(2)]


def run(**changes):
  how = dict(budget=60, most=4, seed=1, name='own') | changes
  return lib.search(['b', 'a'], evaluate, propose, **how)


def test_the_first_texts_come_first_and_the_best_is_built_upon():
  found = run()
  assert [x.text for x in found.entries[:2]] == ['b', 'a']
  assert found.entries[0] == Entry('b', 0.0, 1, 'no a')  # refused, and costs 1
  assert found.spent == sum(x.cost for x in found.entries)
  assert 60 - 4 < found.spent <= 60
  assert lib.best(found).value > 4
  tied = Archive((Entry('x', 1.0, 1, ''), Entry('y', 1.0, 1, '')))
  assert lib.best(tied).text == 'x'


@pytest.mark.parametrize('after', [1, 2, 7])
def test_a_search_that_was_cut_off_ends_the_same(tmp_path, after):
  path, calls = tmp_path / 'archive.json', 0

  def dies(text, seed):
    nonlocal calls
    calls += 1
    if calls > after:
      raise KeyboardInterrupt
    return evaluate(text, seed)

  with pytest.raises(KeyboardInterrupt):
    lib.search(
      ['b', 'a'],
      dies,
      propose,
      budget=60,
      most=4,
      seed=1,
      path=path,
      name='own',
    )
  assert run(path=path) == run()
  whole = tmp_path / 'whole.json'
  run(path=whole)
  assert path.read_bytes() == whole.read_bytes()
  assert run(budget=90, path=path) == run(budget=90)
  for other in (dict(seed=2), dict(most=5), dict(name='of another proposer')):
    with errors.raises(ValueError, f'archive.json {next(iter(other))}'):
      run(path=path, **other)
  with errors.raises(ValueError, 'name archive.json'):
    run(path=path, name='')


@pytest.mark.parametrize(
  'damage',
  [
    lambda text: text[: len(text) // 2],
    lambda text: '',
    lambda text: '[3]',
    lambda text: text.replace('"state"', '"stat"'),
    lambda text: text.replace('[[["b"', '[[[5'),
    lambda text: text.replace('"no a"], ', '], '),
    lambda text: json.dumps(json.loads(text) | {'state': []}),
    lambda text: json.dumps(json.loads(text) | {'state': [[], 'x', 0]}),
  ],
)
def test_a_damaged_file_is_refused(tmp_path, damage):
  path = tmp_path / 'archive.json'
  run(path=path)
  whole = path.read_text()
  path.write_text(damage(whole))
  assert path.read_text() != whole
  with errors.raises(ValueError, 'archive.json damaged'):
    run(path=path)


def test_a_value_that_is_not_a_number_is_below_every_other():
  nan = float('nan')
  some = Archive((Entry('x', nan, 1, ''), Entry('y', -3.0, 1, '')))
  assert lib.best(some).text == 'y'
  assert lib.best(some._replace(entries=some.entries[::-1])).text == 'y'
  assert [x.text for x in lib.read(lib.messages(some))] == ['x', 'y']

  def broken(text, seed):
    return evaluate(text, seed)._replace(value=nan if text == 'b' else 1.0)

  found = lib.search(['b', 'a'], broken, propose, budget=20, most=4, seed=0)
  assert lib.best(found).text == 'a'
  assert found == lib.search(
    ['b', 'a'], broken, propose, budget=20, most=4, seed=0
  )


def test_a_service_that_fails_and_texts_that_are_refused_end_a_search():
  def broken(asked, *, seed):
    raise ServiceFault('away')

  found = lib.search(['a'], evaluate, broken, budget=20, most=4, seed=0)
  assert (len(found.entries), found.faults, found.spent) == (1, 13, 17)
  found = lib.search(
    ['b'], evaluate, lambda asked, *, seed: 'b', budget=20, most=4, seed=0
  )
  assert found.spent == len(found.entries) == 17


def test_what_cannot_be_searched():
  for first, most in ([], 4), (['a'], 0):
    with errors.raises(ValueError, f'first most {most}'):
      lib.search(first, evaluate, propose, budget=9, most=most, seed=0)
  with errors.raises(ValueError, 'cost 3 4'):
    run(most=3)

  def never(text, seed):
    raise AssertionError(text)

  with errors.raises(ValueError, 'budget 4 3'):
    lib.search(['a'], never, propose, budget=3, most=4, seed=0)
  with errors.raises(ValueError, 'archive'):
    lib.best(Archive())


def test_a_proposer_reads_what_was_seen():
  some = Archive((Entry('a\nb', 2.0, 4, 'x\ny'), Entry('c', 1.0, 4, '')))
  asked = lib.messages(some)
  assert lib.read(asked) == [
    Entry('c', 1.0, 0, ''), Entry('a\nb', 2.0, 0, 'x\ny'),
  ]  # fmt: skip
  assert json.loads(asked[-1].content.splitlines()[0])['text'] == 'c'
