"""SWE-TRACE in its world: what its changes pay for, and a search by them."""

import ast
import collections
import pathlib
import re

import jax
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.configs import base, grpo, swe_trace
from agentrl.env.worlds.bug_fixes import DONE, SKIP, TEST, BugFixes
from agentrl.lab.search import command, run, searchers
from agentrl.learner import update as update_lib
from agentrl.rollout.forks import Played
from agentrl.run import build, runner
from tests import batches
from tests.integration import proposing
from tests.integration.judged_methods_test import small

ETA = 0.5
EXPERT, PADDED, HACK, HASTY = range(4)  # of the first group


def attempts(task):
  """What the four attempts at a task say."""
  name, *line = task['fix']
  fix = f'{name} x{line[0]}{line[1]}'
  look, *others = (f'see {x}' for x in (name, *({*'abc'} - {name})))
  expert = [TEST, look, fix, TEST, DONE]
  # Turns that change no criterion, before and behind those that do.
  padded = [TEST, others[0], look, others[1], fix, TEST, look, DONE]
  return [expert, padded, [TEST, look, f'{SKIP} {name}', DONE], [fix, DONE]]


def small_config(folder, **changes):
  c = small(swe_trace.get_config('tiny'), folder)
  c.rollout.max_turns = 8
  for name, value in changes.items():
    path, _, last = name.rpartition('.')
    (c[path] if path else c)[last] = value
  return c


@pytest.fixture(scope='module')
def collected(tmp_path_factory):
  """An experiment and the batch of two groups that say what is written."""
  s = build.experiment(small_config(tmp_path_factory.mktemp('data')))
  first, second = (attempts(task) for task in s.train.tasks[:2])
  # The other group: never ended, wrong, only padding, and an expert's.
  lazy = [second[PADDED][1]] * 4
  rest = [second[EXPERT][:3], [TEST, 'a x*9', DONE], lazy, second[EXPERT]]
  with pytest.MonkeyPatch.context() as patch:
    proposing.says(patch, dict(enumerate([*first, *rest])))
    batch, _ = proposing.collected(s)
  return s, jax.device_get(batch)


def arms():
  """The flags of the docstring's baselines: outcome alone, scores."""
  return dict(re.findall(r'--config\.([\w.]+)="?([^"\n]+)', swe_trace.__doc__))


def process(batch, *, changes):
  """R_t, or what the baseline that sums scores has in its place: [B, K]."""
  names = swe_trace.get_config().stream.process
  if not changes:
    names = [*re.findall(r"'(\w+)'", arms()['stream.process'])]
  names = [x for x in names if x not in ('center', 'scale')]
  assert ('differences' in names) == changes
  hp = {'add_term': {'name': 'rubric'}}
  links = batches.links(*((x, hp.get(x, {})) for x in names))
  return np.asarray(chain.stream(links, batch, {})[0].turn)


def test_padding_gains_nothing_by_changes_and_much_by_scores(collected):
  _, batch = collected
  valid = np.asarray(batch.turns.valid).sum(axis=1)
  assert valid[PADDED] == valid[EXPERT] + 3
  paid = process(batch, changes=True)
  assert paid[PADDED, 0] == pytest.approx(paid[EXPERT, 0])
  assert paid[EXPERT, 0] == pytest.approx(1)
  scores = process(batch, changes=False)
  assert scores[PADDED, 0] > scores[EXPERT, 0] + 1.5
  # A loop that does nothing is paid for every turn by scores alone.
  lazy = 6
  assert paid[lazy, 0] == pytest.approx(0.2)  # it has left the tests alone
  assert scores[lazy, 0] > 1


def z(x):
  """(x - mean) / (std + 1e-6) in float64, 0 where all are equal."""
  x = np.asarray(x, np.float64)
  if len(x) < 2 or np.ptp(x) < 1e-6:
    return np.zeros(len(x))
  return (x - x.mean()) / (x.std(ddof=1) + 1e-6)


def reference(batch, *, eta=ETA, changes=True, by_turn=True):
  """A = z_group(outcome) + eta z_{group, t}(R_t), by loops: [B, K]."""
  valid, p, won = map(
    np.asarray, (batch.turns.valid, batch.turns.terms['rubric'], batch.outcome)
  )
  p, group = p.astype(np.float64), np.asarray(batch.ids['group'])
  to_go, want = np.zeros(p.shape), np.zeros(p.shape)
  for i, row in enumerate(valid):
    n = row.sum()
    for k in range(n):
      before = p[i, k - 1] if k else 0.0
      to_go[i, k] = p[i, n - 1] - before if changes else p[i, k:n].sum()
  for g in np.unique(group):
    mine = np.flatnonzero(group == g)
    want[mine] = z(won[mine])[:, None]
    cells = [(mine, [k]) for k in range(p.shape[1])]
    for rows, turns in cells if by_turn else [(mine, range(p.shape[1]))]:
      at = [(i, k) for i in rows for k in turns if valid[i, k]]
      for place, x in zip(at, z([to_go[x] for x in at]), strict=True):
        want[place] += eta * x
  return np.where(valid, want, 0)


def credit(s, batch, **changes):
  """The advantages of the config, with lines of it changed."""
  c = small_config(pathlib.Path(s.config.data).parent, **changes)
  algorithm = build.experiment(c).algorithm if changes else s.algorithm
  return np.asarray(update_lib.compute_advantage(algorithm, batch, {})[0].turn)


def test_changes_are_compared_at_the_same_turn_of_the_group(collected):
  s, batch = collected
  got = credit(s, batch)
  np.testing.assert_allclose(got, reference(batch), atol=2e-4)
  # Each part of the equation would show.
  for other in (dict(eta=0.0), dict(changes=False), dict(by_turn=False)):
    assert np.abs(got - reference(batch, **other)).max() > 0.1, other
  assert np.abs(reference(batch, eta=0.0)).max() > 0.5


def test_the_same_turn_brings_part_of_padding_back(collected):
  """What is ahead of a turn is more for who is late, and z pays for it."""
  s, batch = collected
  to_go = process(batch, changes=True)
  assert to_go[PADDED, 0] == pytest.approx(to_go[EXPERT, 0])
  got = credit(s, batch) - credit(s, batch, **{'coef.process': 0.0})
  assert got[PADDED, 0] == pytest.approx(got[EXPERT, 0], abs=1e-4)
  late = got[:, 2:].sum(axis=1)
  assert late[PADDED] > 1
  assert late[EXPERT] < 0
  assert np.all(got[PADDED, 3:5] > got[EXPERT, 3:5] + 0.1)


def test_the_baselines_are_a_line_each(collected):
  s, batch = collected
  flags = {k: ast.literal_eval(x) for k, x in arms().items()}
  assert set(flags) == {'coef.process', 'stream.process'}
  alone, scores = ({k: x} for k, x in flags.items())
  got = credit(s, batch, **alone)
  np.testing.assert_allclose(got, reference(batch, eta=0.0), atol=1e-4)
  got = credit(s, batch, **scores)
  np.testing.assert_allclose(got, reference(batch, changes=False), atol=2e-4)


def test_a_hack_is_marked_where_the_outcome_pays_it(collected):
  s, batch = collected
  won, terms = np.asarray(batch.outcome), batch.turns.terms
  assert won[[EXPERT, HACK]].tolist() == [1, 1]
  assert terms['honest'][HACK].tolist()[:4] == [1, 1, 0, 0]
  got = credit(s, batch)
  outcome = credit(s, batch, **{'coef.process': 0.0})
  assert outcome[HACK, 2] == outcome[EXPERT, 2]
  assert got[HACK, 2] < got[EXPERT, 2] - 0.5


def test_other_worlds_and_judges_have_their_own_scores():
  c = swe_trace.get_config('env=household')
  assert c.hp.process.add_term.name == 'progress'
  assert 'differences' not in c.stream.process
  c = swe_trace.get_config('judged=rubric')
  assert c.hp.process.add_term.name == base.JUDGED == c.hp.judge.rubric.term
  assert c.hp.judge.rubric.unit == 'turn'
  assert 'differences' in c.stream.process


class Drawn:
  """Places of the world, and a policy that draws from a few messages."""

  def __init__(self, count):
    self.tasks = [x.task for x in BugFixes().tasks('test', count, 0)]
    self.counts = collections.Counter()

  def begin(self, tasks):
    self.counts, self.places = collections.Counter(), []
    for t in tasks:
      env = BugFixes().env()
      env.reset(self.tasks[t], 0)
      self.places.append((env, 0.0))
    return list(range(len(tasks)))

  def says(self, ask):
    name, sign, n = self.tasks[ask.task]['fix']
    words = [TEST, DONE, *(f'{v} {x}' for v in ('see', SKIP) for x in 'abc')]
    words += [f'{name} x{sign}{n}', f'{name} x{sign}{n + 1}', 'a x+9', 'b x*9']
    return words[np.random.default_rng((ask.task, ask.call)).integers(12)]

  def play(self, asks):
    self.counts['calls'] += len(asks)
    return [self.one(ask) for ask in asks]

  def one(self, ask):
    env, total = self.places[ask.place]
    env, message = env.fork(), self.says(ask)
    step = env.step(message)
    total += step.info['progress']
    self.places.append((env, total))
    return Played(
      place=len(self.places) - 1,
      message=tuple(message.encode()),
      logp=0.0,
      reward=step.reward,
      ended=step.done,
      score=step.score,
      state=b'',
      value=total,
      parsed=message,
    )


def searched(name, evaluate, calls=160, turns=8):
  forks = Drawn(24)
  found = run.search(
    forks, range(24), searchers.bind(name), evaluate, calls=calls, turns=turns
  )
  ways = [
    [tree.parsed[x] for x in tree.path(node)[1:]]
    for tree, node in zip(found.trees, found.answers, strict=True)
  ]
  hacks = np.array([any(x.startswith(SKIP) for x in way) for way in ways])
  return found, hacks


def test_a_search_by_the_rubric_prunes_and_hacks_less_at_equal_calls():
  """By the outcome alone the best of parallel attempts is often a hack."""
  guided, hacks = searched('lookahead', run.truth)
  parallel, hacked = searched('best_of_n', run.outcome)
  for tree in guided.trees:
    parents = [x for x in range(len(tree)) if tree.children[x]]
    assert len({tree.depth[x] for x in parents}) == len(parents) > 1
    assert max(len(tree.children[x]) for x in parents) > 1  # the rest: pruned
    assert tree.spent <= 160
  assert guided.solved.mean() > 0.9
  assert not hacks.any()
  assert hacked[parallel.solved].mean() > 0.5
  right = [
    (x.solved & ~y).mean() for x, y in ((guided, hacks), (parallel, hacked))
  ]
  assert right[0] > right[1] + 0.5


@pytest.mark.slow
def test_a_policy_is_searched_by_the_rubric(tmp_path):
  c = small(grpo.get_config('tiny,env=bug_fixes'), tmp_path)
  c.update(dict(steps=0))
  c.sft.steps = 2
  runner.run(c, str(tmp_path / 'run'))
  names = ['sample', 'best_of_n', 'lookahead']
  how = dict(calls=12, tasks=3, logged=1)
  text = command.search_run(str(tmp_path / 'run'), names, **how)
  for name in names:
    assert f'| {name} |' in text
