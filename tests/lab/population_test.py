"""A population that lasts: its rules by hand, and a search cut off anywhere."""

import json

import numpy as np
import pytest

from agentrl.lab import population as lib
from agentrl.lab.population import Candidate, Rules
from agentrl.service.base import ServiceFault
from tests import errors

WORDS = ('list', 'check', 'guess', 'stop')


def score(text, attempts, seed):
  """Success of 0.2, and 0.35 more for each good word."""
  p = 0.2 + 0.35 * sum(word in text.split() for word in ('list', 'check'))
  return np.random.default_rng(seed).binomial(1, p, attempts).tolist()


def propose(asked, *, seed):
  """Adds a word to the best or another text; of two words at most."""
  rng = np.random.default_rng(seed)
  known = lib.read(asked)
  base = known[-1] if rng.random() < 0.7 else known[rng.integers(len(known))]
  kept = base.text.split()[-1:]
  return ' '.join([*kept, WORDS[rng.integers(len(WORDS))]])


def run(**changes):
  how = dict(budget=600, seed=1, name='own') | changes
  rules = how.pop('rules', Rules())
  return lib.search('act', score, propose, rules, **how)


def test_softmax_and_the_upper_bound():
  some = [Candidate('a', 0.2, 4), Candidate('b', 0.3, 1)]
  e = np.exp(np.array([0.2, 0.3]) / 0.1)
  p = lib.probabilities(some, Rules(temperature=0.1))
  np.testing.assert_allclose(p, e / e.sum())
  # 0.2 + c √(ln 5 / 4) < 0.3 + c √(ln 5 / 1); 0.9 less is caught up.
  high = Rules(bonus=1.0)
  assert lib.probabilities(some, high).tolist() == [0, 1]
  some = [Candidate('a', 1.2, 4), Candidate('b', 0.3, 1)]
  gap = np.sqrt(np.log(5)) / 2  # of the bonuses, times c
  for c, want in ((0.9 / gap - 0.01, [1, 0]), (0.9 / gap + 0.01, [0, 1])):
    assert lib.probabilities(some, Rules(bonus=c)).tolist() == want
  fresh = [*some, Candidate('c', -9.0, 0)]
  assert lib.probabilities(fresh, high).tolist() == [0, 0, 1]


def test_means_follow_the_newest():
  x = lib.rewarded(Candidate('a', 0.0, 0), 0.6, Rules())
  assert x == Candidate('a', 0.6, 1)
  x = lib.rewarded(x, 1.0, Rules(smoothing=0.9))
  assert (x.mean, x.tried) == (pytest.approx(0.9 * 0.6 + 0.1), 2)


def test_what_joins_is_above_the_median_and_the_lowest_leaves():
  old = [
    Candidate('first', 0.1, 9),
    *(Candidate(t, m, 1) for t, m in (('a', 0.5), ('b', 0.3), ('c', 0.4))),
  ]
  texts = lambda new, **how: [  # noqa: E731
    x.text for x in lib.joined(old, Candidate('new', new, 1), Rules(**how))
  ]
  assert texts(0.35) == ['first', 'a', 'b', 'c']  # the median itself
  assert texts(0.36) == ['first', 'a', 'b', 'c', 'new']
  assert texts(0.36, size=4) == ['first', 'a', 'c', 'new']  # never the first


def test_a_planted_text_takes_over():
  state = run()
  assert set(lib.best(state).text.split()) == {'list', 'check'}
  assert state.candidates[0].text == 'act'
  assert len({x.text for x in state.candidates}) == len(state.candidates)
  last = lib.probabilities(state.candidates, Rules())
  assert last[0] < 0.05  # it is not drawn any more


def test_the_budget_counts_what_proposals_cost():
  spent = []

  def counted(text, attempts, seed):
    spent.append(attempts)
    return score(text, attempts, seed)

  state = lib.search('act', counted, propose, Rules(), budget=203, seed=0)
  assert sum(spent) == state.spent <= 203
  assert state.spent > 203 - max(Rules().verify, Rules().group)


@pytest.mark.parametrize('after', [1, 7, 25])
def test_a_search_that_was_cut_off_ends_the_same(tmp_path, after):
  path = tmp_path / 'population.json'
  calls = 0

  def dies(text, attempts, seed):
    nonlocal calls
    calls += 1
    if calls > after:
      raise KeyboardInterrupt
    return score(text, attempts, seed)

  with pytest.raises(KeyboardInterrupt):
    lib.search(
      'act', dies, propose, Rules(), budget=240, seed=3, path=path, name='own'
    )
  again = run(budget=240, seed=3, path=path)
  whole = tmp_path / 'whole.json'
  assert again == run(budget=240, seed=3, path=whole)
  assert path.exists() == whole.exists()
  assert path.read_bytes() == whole.read_bytes()
  assert run(budget=240, seed=3, path=path) == again  # nothing is left to do
  more = run(budget=300, seed=3, path=path)
  assert more == run(budget=300, seed=3)


def test_a_file_of_another_search(tmp_path):
  path = tmp_path / 'population.json'
  run(budget=40, path=path)
  for other in (dict(seed=2), dict(rules=Rules(size=3)), dict(name='other')):
    with errors.raises(ValueError, 'population.json'):
      run(budget=80, path=path, **other)
  with errors.raises(ValueError, 'name population.json'):
    run(budget=80, path=path, name='')
  held = json.loads(path.read_text())
  for state in ([], [[], *held['state'][1:]], held['state'][:-1], 3):
    path.write_text(json.dumps(held | dict(state=state)))
    with errors.raises(ValueError, 'population.json damaged'):
      run(budget=80, path=path)


def test_a_service_that_fails_costs_no_attempts():
  def broken(asked, *, seed):
    raise ServiceFault('away')

  state = lib.search('act', score, broken, Rules(), budget=83, seed=0)
  assert (state.spent, state.proposed, state.faults) == (80, 0, 4)


def test_a_proposer_reads_what_was_tried():
  asked = lib.messages([Candidate('a\nb', 0.5, 2), Candidate('c', 0.25, 1)])
  assert lib.read(asked) == [Candidate('c', 0.25, 1), Candidate('a\nb', 0.5, 2)]
  assert json.loads(asked[-1].content.splitlines()[0])['text'] == 'c'


@pytest.mark.parametrize(
  ('rules', 'says'),
  [
    (Rules(size=0), 'size 0'),
    (Rules(verify=0), 'verify 0'),
    (Rules(smoothing=1.0), 'smoothing 1.0'),
    (Rules(temperature=0.0), 'temperature 0.0'),
    (Rules(bonus=-1.0), 'bonus -1.0'),
  ],
)
def test_rules_that_cannot_be_followed(rules, says):
  with errors.raises(ValueError, says):
    run(rules=rules)
