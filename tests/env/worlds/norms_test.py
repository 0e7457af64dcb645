"""Norms: matches by hand, and against plain rules under every switch."""

import itertools
import json

import numpy as np
import pytest

from agentrl.env import seats
from agentrl.env.worlds import norms
from agentrl.env.worlds.norms import Norms
from tests.env.promises import refuses
from tests.env.worlds import refereed

NAMES = ('ann', 'bob', 'cat', 'dan')
TASK = {
  'capacity': 40,
  'pool': 24,
  'growth': 100,
  'watched': [1, 2, 1],
  'model': [1, 1, 2],
}
THREE = Norms(players=3, rounds=3)
SWITCHES = list(itertools.product((False, True), repeat=3))


def plain(rules, task, said):
  """Plays messages by the docstring's rules: texts and worth of each seat.

  Only messages that are understood.
  """
  n, said = rules.players, iter(said)
  pool, norm, own = task['pool'], rules.most, [0] * n
  texts, took, fined = [[] for _ in range(n)], [0] * n, [0] * n
  for t in range(rules.rounds):
    for i in range(n):
      lines = []
      if t:
        lost = f', fined {3 * fined[i]}' if fined[i] else ''
        lines += [f'you took {took[i]}{lost}, own {own[i]}']
        j = (i + task['model'][t]) % n
        if rules.social:
          lines += [f'{NAMES[j]} took {took[j]}, owns {own[j]}']
      told = f', norm {norm}' if t and rules.vote else ''
      texts[i].append('\n'.join([*lines, f'pool {pool}{told}, take?']))
    asked = [int(next(said)) for _ in range(n)]
    assert sum(asked) <= pool  # dealing out is tested where it is written
    took, fined = asked, [0] * n
    pool -= sum(took)
    own = [a + b for a, b in zip(own, took, strict=True)]
    if pool < task['capacity'] // 8:
      break
    votes = []
    for i in range(n) if rules.punish or rules.vote else ():
      j = (i + task['watched'][t]) % n
      saw = f', {NAMES[j]} {took[j]}' if rules.punish else ''
      what = {(1, 0): 'fine', (0, 1): 'norm', (1, 1): 'fine norm'}
      asks = what[rules.punish, rules.vote]
      texts[i].append(f'you took {took[i]}{saw}, pool {pool}, {asks}?')
      words = next(said).split()
      if rules.punish and words[0] != '-':
        other = NAMES.index(words[0])
        own[i], own[other] = own[i] - 1, own[other] - 3
        fined[other] += 1
      votes += [int(words[-1])] if rules.vote else []
    if rules.vote:
      norm = sorted(votes)[(n - 1) // 2]
    grows = task['growth'] * pool * (task['capacity'] - pool)
    pool = min(task['capacity'], pool + grows // (100 * task['capacity']))
  return texts, own


def messages(rules, rng, low=0, high=3):
  """Random messages of a match, as many as it may have."""
  n, out = rules.players, []
  for _ in range(rules.rounds):
    out += [str(x) for x in rng.integers(low, high, n)]
    for i in range(n) if rules.punish or rules.vote else ():
      others = [x for j, x in enumerate(NAMES[:n]) if j != i]
      fine = [rng.choice(['-', *others])] * rules.punish
      out.append(' '.join([*fine, *[str(rng.integers(5))] * rules.vote]))
  return out


def play(rules, task, said):
  return refereed.play(rules, task, refereed.by_script(said))


@pytest.mark.parametrize(('punish', 'social', 'vote'), SWITCHES)
def test_matches_are_those_of_the_rules(punish, social, vote):
  """Texts hold what a seat may know and no more; nothing else is paid."""
  rules = Norms(punish=punish, social=social, vote=vote, rounds=5)
  rng = np.random.default_rng(0)
  for task, *_ in rules.tasks('train', 12, 0):
    said = messages(rules, rng)
    texts, own = plain(rules, task, said)
    read, earned, told = play(rules, task, said)
    assert list(read.values()) == texts
    worth = np.array(own) / norms.level(task, 4, 4) / 5
    np.testing.assert_allclose(list(earned.values()), worth, atol=1e-9)
    np.testing.assert_allclose(told['score'], np.clip(worth, 0, 1), atol=1e-9)
    assert told['info'][0]['welfare'] == pytest.approx(worth.mean())
    assert not told['invalid']


def test_a_match_told_in_full():
  said = ('2', '4', '1', 'bob 2', '- 3', 'bob 1')
  said += ('2', '4', '0', '- 2', '- 2', 'bob 2', '2', '2', '2', *['- 4'] * 3)
  read, earned, told = play(THREE, TASK, said)
  # 7 of 24 are taken: 17 grow by ⌊17 · 23 / 40⌋ = 9. Bob has 4 - 2 · 3.
  assert read['bob'] == [
    'pool 24, take?',
    'you took 4, cat 1, pool 17, fine norm?',
    'you took 4, fined 6, own -2\ncat took 1, owns 0\npool 26, norm 2, take?',
    'you took 4, ann 2, pool 20, fine norm?',
    'you took 4, fined 3, own -1\nann took 2, owns 3\npool 30, norm 2, take?',
    'you took 2, cat 2, pool 24, fine norm?',
  ]
  unit = 1 / (3 * norms.level(TASK, 3, 4))
  own = {'ann': 2 - 1 + 2 + 2, 'bob': 4 - 6 + 4 - 3 + 2, 'cat': 1 - 1 - 1 + 2}
  assert earned == pytest.approx({x: n * unit for x, n in own.items()})
  assert told['info'][1] == {
    'fined': 0.0,
    'welfare': pytest.approx(7 * unit / 3),
    'survived': 1.0,
  }


def columns(rules, task, said):
  """Sums of each seat's columns."""
  env, total = rules.env(), {}
  env.reset(task, 0)
  for text in said:
    step = env.step(text)
    for seat, info in enumerate(json.loads(step.text)['info']):
      for name, x in info.items():
        total[seat, name] = total.get((seat, name), 0) + x
    if step.done:
      break
  assert {name for _, name in total} <= set(rules.columns)
  return total


def test_columns_count_catches_fines_and_norms_that_were_kept():
  said = ['2', '4', '1', 'bob 2', '- 3', 'bob 1', '2', '4', '0']
  said += ['- 2', '- 2', 'bob 2', '2', '2', '2', *['- 4'] * 3]
  got = columns(THREE, TASK, said)
  assert [got[i, 'took'] for i in range(3)] == [6, 10, 3]
  # Nothing was voted in the first round.
  assert [got[i, 'obeyed'] for i in range(3)] == [2, 1, 2]
  assert [got[i, 'fined'] for i in range(3)] == [1, 0, 2]
  kept = columns(Norms(players=3, rounds=3, vote=False), TASK, ['1'] * 9)
  assert not any(kept[i, 'obeyed'] for i in range(3))


def test_the_level_is_the_most_that_lasts():
  for rules in (Norms(), Norms(scarce=True), Norms(players=6, most=9)):
    n = rules.players
    for task, *_ in rules.tasks('test', 12, 0):

      def rounds(take, task=task, n=n):
        pool = task['pool']
        for t in range(200):
          pool -= n * take
          if pool < task['capacity'] // 8:
            return t
          grows = task['growth'] * pool * (task['capacity'] - pool)
          pool = min(task['capacity'], pool + grows // 100 // task['capacity'])
        return 200

      best = norms.level(task, n, rules.most)
      assert [rounds(x) == 200 for x in range(best, best + 2)] == [True, False]
      assert best == 1 if rules.scarce else best > 1


@pytest.mark.parametrize('scarce', [False, True])
def test_demonstrations_earn_one_and_greed_pays_one_alone(scarce):
  """Taking the most pays where others hold back, and costs all together."""
  alone, others, together = [], [], []
  for selfish in (0, 1, 4):
    rules = Norms(scarce=scarce, selfish=selfish, punish=False)
    for task, said, _ in rules.tasks('test', 25, 0):
      _, earned, told = play(rules, task, said)
      assert not told['invalid']
      worth = [earned[x] for x in NAMES]
      if selfish == 0:
        assert worth == pytest.approx([1] * 4)
        assert told['info'][0]['survived'] == 1
      elif selfish == 1:
        greedy = task['pool'] % 4
        alone.append(worth.pop(greedy))
        others += worth
      else:
        together += worth
  assert np.mean(alone) > 1.4
  assert np.mean(others) < np.mean(together) + 0.3 < 1.3
  assert np.mean(together) < 0.9


def test_demonstrations_fine_who_broke_the_norm():
  """What greed gains among rich seats is what fines take."""
  gains = []
  for punish in (True, False):
    rules, fined = Norms(selfish=1, punish=punish), 0
    worth = []
    for task, said, _ in rules.tasks('test', 25, 0):
      greedy = NAMES[task['pool'] % 4]
      _, earned, told = play(rules, task, said)
      assert not told['invalid']
      worth.append(earned[greedy])
      named = [x.split()[0] for x in said if x[0].isalpha()]
      assert set(named) <= {greedy}
      fined += len(named)
    gains.append(np.mean(worth))
    assert bool(fined) == punish
  assert gains[0] < 1 < gains[1]


def test_a_pool_that_collapses_ends_it_before_anyone_is_fined():
  task = TASK | {'pool': 16}
  read, earned, told = play(THREE, task, ['4', '4', '4'])  # 4 of 5 are left
  assert told['seat'] is None
  assert [len(x) for x in read.values()] == [1, 1, 1]
  assert told['info'][0]['survived'] == 0
  assert len({*earned.values()}) == 1
  read, _, told = play(THREE, task, ['4', '4', '3', *['- 4'] * 3, *['4'] * 3])
  assert len(read['ann']) == 3
  assert told['info'][0]['survived'] == pytest.approx(1 / 3)


def test_no_seat_hears_of_a_message_before_all_have_spoken():
  """Nor ever what another one proposed, where the median is the same."""
  rng, rules = np.random.default_rng(1), Norms(rounds=3)
  for task, *_ in rules.tasks('train', 3, 0):
    said = messages(rules, rng, 1, 3)
    for at in range(24):
      other, ends = list(said), (at // 4 + 1) * 4
      other[at] = '0' if at // 4 % 2 == 0 else '- 0'
      heard = []
      for script in (said, other):
        env, told = rules.env(), []
        told.append(env.reset(task, 0))
        told += [env.step(x).text for x in script[: ends - 1]]
        heard.append([json.loads(x)['text'] for x in told])
        env.close()
      assert heard[0] == heard[1]
    low, high = list(said), list(said)
    low[4:8] = ['- 2', '- 2', '- 2', '- 0']
    high[4:8] = ['- 2', '- 2', '- 2', '- 4']
    assert play(rules, task, low) == play(rules, task, high)


def test_each_mechanism_is_gone_without_its_switch():
  """One script, with what is not asked left out: texts and pay."""
  rng = np.random.default_rng(2)
  rules = Norms(rounds=4)
  (task, *_), *_ = rules.tasks('train', 1, 3)
  said = messages(rules, rng)
  judged = [i for i in range(len(said)) if i // 4 % 2]
  assert any(said[i][0].isalpha() for i in judged)
  read, earned, _ = play(rules, task, said)
  alone, own, _ = play(Norms(rounds=4, social=False), task, said)
  assert own == earned  # it tells, and pays nobody
  assert 'owns' in read['ann'][2]
  assert not any('owns' in x for x in alone['ann'])
  votes = [x.split()[1] if i in judged else x for i, x in enumerate(said)]
  calm, paid, _ = play(Norms(rounds=4, punish=False), task, votes)
  assert paid != earned
  assert all(x >= earned[name] for name, x in paid.items())
  assert any('fined' in x for texts in read.values() for x in texts)
  assert not any('fine' in x for texts in calm.values() for x in texts)
  fines = [x.split()[0] if i in judged else x for i, x in enumerate(said)]
  free, same, _ = play(Norms(rounds=4, vote=False), task, fines)
  assert same == earned
  assert all('norm' in x for x in read['ann'][1:])
  assert not any('norm' in x for x in free['ann'])
  once = Norms(rounds=4, punish=False, vote=False)
  takes = [x for i, x in enumerate(said) if i not in judged]
  assert len(play(once, task, takes)[0]['ann']) == 4


RUBBISH = (
  *('', '5', '-1', '2.0', '²', 'all', '\ud800', '2 2', '9' * 10_000_000),
  *('bob', '- ', '-', '- 5', 'bob 2', 'zed 2', 'ann 2 2', 'ann  2'),
  'ann 2' * 2_000_000,
)


@pytest.mark.parametrize('said', RUBBISH, ids=lambda x: ascii(x[:9]))
def test_rubbish_costs_its_own_turn_and_no_more(said):
  """Bob says it; 'bob' is himself."""
  first = ['2', '0', '1', '- 1', '- 4', '- 3']
  rest = ['1', '1', '1', '- 1', '- 1', '- 1'] * 2
  want = play(THREE, TASK, first + rest)
  for at, stands in ((1, '0'), (4, '- 4')):
    script = [*first, *rest]
    script[at] = said
    env = THREE.env()
    env.reset(TASK, 0)
    steps = [env.step(x) for x in script]
    assert [i for i, x in enumerate(steps) if x.invalid] == [at]
    env.close()
    read, earned, _ = play(THREE, TASK, script)
    assert earned == want[1], stands
    # Without bob's vote the lower median of 1 and 3 is 1.
    norm = '1' if at == 4 else '3'
    assert f'norm {norm}' in read['ann'][2]


def test_where_nobody_votes_the_norm_stands():
  said = ['1', '1', '1', '- 2', '- 2', '- 2', '1', '1', '1', *['x'] * 3]
  read, *_ = play(THREE, TASK, [*said, '1', '1', '1', *['- 1'] * 3])
  assert 'norm 2' in read['cat'][4]


def test_thoughts_are_not_heard():
  env = THREE.env()
  env.reset(TASK, 0)
  assert not env.step('<think>4</think> 2').invalid


def test_settings_and_texts():
  family = Norms(players=3, teach=True)
  assert isinstance(family, seats.SeatedFamily)
  assert family.seat_names == NAMES[:3]
  assert '2 others' in family.system
  assert 'fine' in family.system
  assert 'fine' not in Norms(teach=True, punish=False).system
  assert family.seat_system('bob') == 'You are bob.'
  assert Norms().system == Norms().seat_system('ann') == ''
  fields = ('scarce', 'punish', 'social', 'vote', 'teach')
  changed = [{x: not getattr(Norms(), x)} for x in fields] + [{'selfish': 2}]
  assert len({Norms(**x).name() for x in [{}, *changed]}) == 7
  refuses(Norms, players=(1, 7), most=(2, 10), rounds=(1, 100), selfish=(-1, 5))
