"""Pairs in hindsight, against the world that is asked again."""

import functools

import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import armap, base
from agentrl.dataset import hindsight
from agentrl.dataset.task_edits import shared_turns
from agentrl.dataset.trajectory import StoredTrajectory, make_turn
from agentrl.text.tokenizer import Embedded
from agentrl.types import Status
from tests import errors
from tests.env import goals_test as worlds

WORDS, FAMILY = Embedded(), worlds.FAMILY


def stored(index, group, messages, ended=True):
  """A trajectory as a rollout logs it, with rewards of its own goal."""
  task = worlds.TASKS[index]
  env = FAMILY.env()
  read, turns = env.reset(task, group), []
  for said in messages:
    step = env.step(said)
    turns.append(
      make_turn(
        WORDS.encode(f'{read}\n'),
        [*WORDS.encode(said), WORDS.eot],
        logp=-1.5,
        reward=step.reward + 0.25,
        terms=dict(step.info),
      )
    )
    read = step.text
  status = Status.FAILED if ended else Status.TURN_LIMIT
  return StoredTrajectory(
    turns=tuple(turns),
    task=index,
    group=group,
    outcome=step.score,
    status=Status.SOLVED if step.score else status,
    source='policy',
    step=1,
    history='full',
    encoded=False,
  )


@functools.cache
def explored(tasks=6, size=6):
  """Groups, half of whose members go on from a turn of another one."""
  rng = np.random.default_rng(1)
  out = []
  for index in range(tasks):
    task, group = worlds.TASKS[index], []
    for i in range(size):
      messages, _ = worlds.wander(task, rng, count=4)
      if i % 2:
        n = int(rng.integers(1, 4))
        messages = [*group[i - 1][:n], *messages[n:]]
      group.append(messages)
      out.append(stored(index, index, messages[: 4 + i % 4], i % 4 > 0))
  return tuple(out)


def made(xs, **settings):
  return hindsight.hindsight_pairs(xs, words=WORDS, family=FAMILY, **settings)


def halves(out):
  return list(zip(out[::2], out[1::2], strict=True))


def texts(x, of):
  return [WORDS.decode(getattr(t, of).tolist()) for t in x.turns]


def told(x):
  """What tells a trajectory apart, whatever its goal."""
  first, *later = texts(x, 'context')
  return first.split('\n')[2], *later, *texts(x, 'message')


@functools.cache
def known():
  return {told(x): x for x in reversed(explored())}


def earns(x):
  """What the world says of a half: its messages under the goal that it reads.

  Found again by its messages and answers among what was explored.
  """
  y = known()[told(x)]
  first, goal, *rest = texts(x, 'context')[0].split('\n')
  task = worlds.asked(worlds.TASKS[y.task], goal)
  assert '\n'.join([first, goal, *rest]) == f'{FAMILY.describe(task)}\n'
  said = [m.removesuffix('<eot>') for m in texts(x, 'message')]
  return worlds.score(task, said), goal, y


def test_winners_fulfil_what_is_written_and_losers_do_not():
  xs = explored()
  pairs = halves(made(xs))
  assert len(pairs) > 20
  for win, lose in pairs:
    (one, goal, _), (other, same, _) = earns(win), earns(lose)
    assert (one, other) == (1, 0)
    assert goal == same == win.task == lose.task
    assert (win.outcome, lose.outcome) == (1, 0)
    assert win.group == lose.group
  assert len({x.group for x, _ in pairs}) == len(pairs)


def test_losers_are_of_their_kinds():
  xs = explored()
  for win, lose in halves(made(xs, losers=('prefix',))):
    _, goal, one = earns(win)
    _, _, other = earns(lose)
    assert one.task == other.task
    shared = shared_turns(one, other)
    assert shared == shared_turns(win, lose) >= 1
    for y in xs:
      if y.group == one.group and shared_turns(one, y) > shared:
        ended = y.status in hindsight.ENDED
        assert ended
        assert FAMILY.fulfils(texts(y, 'context'), goal)
  for win, lose in halves(made(xs, losers=('other',))):
    assert earns(win)[2].task != earns(lose)[2].task


def test_goals_are_those_of_what_was_done_and_not_the_given_ones():
  """Fails where first contexts stay as they were."""
  xs = explored()
  given = {texts(x, 'context')[0] for x in xs}
  read = {texts(x, 'context')[0] for x in made(xs)}
  assert len(read - given) > 0.8 * len(read)


def test_no_reward_of_the_world_is_read_or_kept():
  xs = explored()
  rng = np.random.default_rng(2)

  def otherwise(x):
    turns = [
      t._replace(reward=float(rng.normal()), terms={'progress': 3.0})
      for t in x.turns
    ]
    flipped = {Status.FAILED: Status.SOLVED, Status.SOLVED: Status.FAILED}
    return x._replace(
      turns=tuple(turns),
      outcome=float(rng.random()),
      status=flipped.get(x.status, x.status),
    )

  out = made(xs)
  assert [x.id for x in made([otherwise(x) for x in xs])] == [x.id for x in out]
  for x in out:
    assert not any(t.reward or t.terms or np.any(t.logp) for t in x.turns)


def test_what_a_limit_has_ended_never_wins():
  xs = explored()
  assert not made([x._replace(status=Status.TURN_LIMIT) for x in xs])
  for win, _ in halves(made(xs)):
    assert earns(win)[2].status in hindsight.ENDED


def test_settings():
  xs = explored()
  goals_of = {}
  for win, _ in halves(made(xs, most=3, losers=('other',))):
    goals_of.setdefault(tuple(texts(win, 'message')), set()).add(win.task)
  assert max(map(len, goals_of.values())) == 3
  one = [x.id for x in made(xs, seed=0)]
  assert one == [x.id for x in made(xs, seed=0)]
  assert one != [x.id for x in made(xs, seed=1)]


def test_a_context_that_cannot_be_encoded_again_is_refused():
  class Merging(Embedded):
    def encode(self, text, *, specials=False):
      return super().encode(text, specials=specials)[:-1]

  with errors.raises(ValueError, 'hindsight_pairs rollout.chat_format bare'):
    hindsight.hindsight_pairs(explored(), words=Merging(), family=FAMILY)


@pytest.mark.parametrize(
  ('arg', 'changes', 'names'),
  [
    ('tiny,env=sokoban', {}, 'hindsight_pairs env:goals c.env'),
    ('tiny,env=countdown', {}, 'hindsight_pairs env:goals c.env'),
    ('tiny', {'rollout.history': 'turn'}, 'rollout.history full turn'),
    ('tiny', {'rollout.group_size': 1}, 'rollout.group_size >= 2 1 prefix'),
  ],
)
def test_wiring_that_cannot_be_is_refused(arg, changes, names):
  c = armap.get_config(arg)
  c.update_from_flattened_dict(changes)
  with errors.raises(ValueError, names):
    registry.check(base.wiring(c), c)


def test_losers_of_other_tasks_need_no_groups():
  c = armap.get_config('tiny')
  c.rollout.group_size = 1
  c.hp.triplets.hindsight_pairs.losers = ('other',)
  registry.check(base.wiring(c), c)
