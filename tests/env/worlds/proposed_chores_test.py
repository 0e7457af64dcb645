"""Chores that a service proposes: what it reads, what of it is a task."""

import dataclasses
import itertools
import threading
import time

import numpy as np
import pytest

from agentrl.configs import pae
from agentrl.env import base, tool_env
from agentrl.env.proposals import HELD_OUT
from agentrl.env.worlds import household, proposed_chores
from agentrl.env.worlds.household import DONE
from agentrl.env.worlds.proposed_chores import FULFILLED, ProposedChores
from agentrl.judge.item import Exchange, Item
from agentrl.run.check import fields
from agentrl.run.play import host_env
from agentrl.service.base import ServiceFault
from agentrl.text.message import Message
from agentrl.text.tokenizer import Embedded
from tests import errors

FAMILY = ProposedChores(noise=0.5)
HOUSES = [x.task for x in FAMILY.tasks('train', 120, 0)]
HIDDEN = [x.task for x in FAMILY.tasks('test', 60, 0)]


def env_of(proposer, **fields):
  family = dataclasses.replace(FAMILY, **fields)
  return base.with_services(family, {'proposer': proposer}).env()


def says(*texts):
  """A proposer that says one text after the other, and what it has read."""
  read, left = [], itertools.cycle(texts)

  def proposer(messages, *, seed):
    del seed
    read.append(messages[-1].content)
    return next(left)

  return proposer, read


def written(goal):
  return tool_env.answer_message(', '.join(f'{x} {y}' for x, _, y in goal))


def possible(env, tasks):
  """Share of proposals of which the house has everything."""
  out = []
  for seed, task in enumerate(tasks):
    env.reset(task, seed)
    out.append(env.step('door').info['possible'])
  return np.mean(out)


def test_houses_differ_and_have_some_of_everything():
  has = {tuple(x for x, _, _ in task['facts']) for task in HOUSES}
  assert len(has) > 20
  assert all(len(x) == 4 and x[-1] == 'door' for x in has)
  assert {x for names in has for x in names} == set(household.OBJECTS)


def test_without_the_context_proposals_ask_for_what_is_not_there():
  """Nor does it help to be shown a house, and not to look."""

  def blind(messages, *, seed):
    del messages
    unseen = [Message('user', proposed_chores.PROPOSE)]
    return proposed_chores.propose(unseen, seed=seed)

  seeing = proposed_chores.propose
  assert possible(env_of(seeing), HOUSES) == 1
  shown = env_of(seeing, context='demonstration', tries=32)
  assert possible(shown, HOUSES) == 1
  for env in (env_of(seeing, context='none'), env_of(blind)):
    assert possible(env, HOUSES) < 0.2


def test_what_the_house_lacks_cannot_be_brought_about():
  facts = [['lamp', 'state', 'off'], ['door', 'state', 'open']]
  proposer, _ = says('<answer>lamp on, oven on, mug den</answer>')
  env = env_of(proposer, noise=0.0)
  assert env.reset({'facts': facts, 'shown': []}, 0).startswith(
    'want\nlamp on, oven on, mug den\nlamp state off, '
  )
  steps = [env.step(x) for x in ('lamp on', 'oven on', 'mug den', DONE)]
  assert [x.invalid for x in steps] == [False, True, True, False]
  assert [x.info['possible'] for x in steps] == [0] * 4
  assert (steps[-1].done, steps[-1].score) == (True, 0)


def test_a_proposal_is_played_as_any_other_task():
  env = env_of(proposed_chores.propose)
  for seed, task in enumerate(HOUSES):
    text = env.reset(task, seed)
    assert text == env.reset(task, seed)
    wanted = dict(x.split() for x in text.split('\n')[1].split(', '))
    goal = [[a, b, wanted[a]] for a, b, _ in task['facts'] if a in wanted]
    assert len(goal) == len(wanted) >= 2
    _, said = household.solved({'facts': task['facts'], 'goal': goal})
    assert [*map(env.step, said)][-1].score == 1
  assert len({env.reset(HOUSES[0], seed) for seed in range(20)}) > 10


def test_tasks_of_evaluations_and_of_warm_starts_ask_nobody():
  proposer, read = says('?')
  drawn = dataclasses.replace(FAMILY, proposed=False)
  tasks = [*FAMILY.tasks('test', 30, 1), *drawn.tasks('train', 30, 1)]
  env = env_of(proposer)
  for task, said, _ in tasks:
    env.reset(task, 0)
    steps = [env.step(x) for x in said]
    assert (steps[-1].score, steps[0].info['possible']) == (1, 1)
  assert not read


@pytest.mark.parametrize('context', proposed_chores.CONTEXTS)
def test_a_proposer_reads_of_no_hidden_goal(context):
  """It sees training houses alone, none of which has a goal."""
  read = {proposed_chores.question(x, context) for x in HOUSES}
  texts = [written(x['goal'])[8:-9] for x in HIDDEN]
  assert not [text for text in texts for told in read if f'\n{text}' in told]
  assert len(read) == 1 or context != 'none'
  assert all('goal' not in x for x in HOUSES)
  # What an owner did there brings about a goal of the training split.
  drawn = dataclasses.replace(FAMILY, proposed=False)
  for house, (task, said, key) in zip(
    FAMILY.tasks('train', 40, 3), drawn.tasks('train', 40, 3), strict=True
  ):
    assert (house.key, house.task['shown']) == (key, list(said))
    assert proposed_chores.split_of(task['facts'], task['goal']) == 'train'


def test_hidden_goals_are_refused_in_every_state_of_their_house():
  rng = np.random.default_rng(0)
  held = 0
  for task in HIDDEN:
    for _ in range(4):
      facts = [
        [a, b, str(rng.choice(household.values(a, b)))]
        for a, b, _ in task['facts']
      ]
      got = proposed_chores.read(facts, written(task['goal'][::-1]))
      assert got.fault in (HELD_OUT, FULFILLED)
      held += got.fault == HELD_OUT
  assert held > len(HIDDEN)
  hidden = HIDDEN[0]
  proposer, read = says(written(hidden['goal']))
  house = {'facts': hidden['facts'], 'shown': []}
  with errors.raises(ServiceFault, 'held_out 3'):
    env_of(proposer, tries=3).reset(house, 0)
  assert len(read) == 3


HOSTILE = (
  '',
  'lamp on',
  '<answer></answer>',
  '<answer>lamp</answer>',
  '<answer>lamp on on</answer>',
  '<answer>lamp den</answer>',
  '<answer>lamp on, lamp off</answer>',
  '<answer>cat on</answer>',
  '<answer>lamp on</answer><answer>fan on</answer>',
  '<answer>' + 'lamp on, ' * 60 + 'fan on</answer>',
  '<answer>__import__("os").abort()</answer>',
  '<answer>lamp on\nwant\nfan on</answer>',
  '<answer>\ud800 on</answer>',
  '\x00' * 1000,
  '<answer>' + 'x' * 10_000_000 + '</answer>',
  '<answer>lamp on</answer>' + ' ' * 10_000_000,
  '<think><answer>lamp on</answer>',
)


@pytest.mark.parametrize('text', HOSTILE, ids=lambda x: repr(x[:24]))
def test_what_is_no_proposal_costs_its_own_task_only(text):
  proposer, read = says(text)
  env, began = env_of(proposer, tries=2), time.monotonic()
  with errors.raises(ServiceFault, 'format 2'):
    env.reset(HOUSES[0], 0)
  assert len(read) == 2
  good = env_of(says(text, written([['door', '', 'open']]))[0])
  facts = [['lamp', 'state', 'on'], ['door', 'state', 'shut']]
  assert good.reset({'facts': facts, 'shown': []}, 0).startswith('want\ndoor o')
  assert time.monotonic() - began < 5


def test_one_fact_is_no_goal_of_evaluations():
  """So that an owner who changed one thing can be learned from."""
  assert all(len(x['goal']) > 1 for x in HIDDEN)
  held = 0
  for task in HOUSES:
    for name, attribute, value in task['facts']:
      for new in household.values(name, attribute):
        goal = [[name, attribute, new]]
        held += proposed_chores.split_of(task['facts'], goal) == 'test'
        got = proposed_chores.read(task['facts'], written(goal))
        assert got.fault == (FULFILLED if new == value else '')
  assert held > len(HOUSES)


def test_upper_case_is_read_and_what_holds_already_is_no_task():
  facts = [['lamp', 'state', 'on'], ['door', 'state', 'shut']]
  got = proposed_chores.read(facts, '<answer>Door Open, LAMP on</answer>')
  assert got.task == {
    'goal': [['lamp', 'state', 'on'], ['door', 'state', 'open']]
  }
  got = proposed_chores.read(facts, '<answer>lamp on</answer>')
  assert (got.task, got.fault) == (None, FULFILLED)


def wander(env, task, seed, rng):
  """Plays what may be right: -> exchanges, and the true score."""
  text = env.reset(task, seed)
  goal = text.split('\n')[1].split(', ')
  said = [*rng.permutation([*goal, 'door open', 'door shut', 'fan on'])]
  said = [*said[: rng.integers(3, len(said) + 1)], 'door open', *goal]
  said = said[int(rng.integers(3)) * 2 :] + [DONE] * bool(rng.integers(6))
  turns, step = [], None
  for message in map(str, said):
    turns.append(Exchange(text, message, {}))
    step = env.step(message)
    text = step.text
  return tuple(turns), step.score


def test_the_evaluator_is_right_and_knows_no_score():
  rng, scores = np.random.default_rng(1), []
  for changes in ({}, {'context': 'none'}):
    env = env_of(proposed_chores.propose, **changes)
    for seed, task in enumerate(HOUSES):
      turns, score = wander(env, task, seed, rng)
      for outcome in (0.0, 1.0):
        item = Item({}, turns, -1, outcome)
        assert proposed_chores.evaluate(item) == score
      scores.append(score)
  assert 0.1 < np.mean(scores) < 0.9


def test_the_evaluator_sees_what_was_shown_last_and_not_before():
  """The lamp was on, and is not any more."""
  asked = 'want\nlamp on\nlamp state off, door state shut'
  on, off, end = 'lamp state on', 'lamp state off, radio state on', DONE
  judge = lambda *turns: proposed_chores.evaluate(  # noqa: E731
    Item({}, tuple(Exchange(*x, {}) for x in turns), -1, 0.0)
  )
  assert judge((asked, 'lamp on'), (on, end)) == 1
  assert judge((asked, 'lamp on'), (on, '<think>so</think> Done.')) == 1
  assert judge((asked, 'lamp on'), (on, 'lamp off'), (off, end)) == 0
  assert judge((asked, end)) == 0
  assert judge((asked, 'lamp on'), (on, 'lamp on')) == 0
  assert judge((asked, f'{on} {end}')) == 0


class Locked:
  """A proposer that cannot be copied, as services are."""

  def __init__(self):
    self._lock = threading.Lock()

  def __call__(self, messages, *, seed):
    with self._lock:
      return proposed_chores.propose(messages, seed=seed)


def test_an_environment_forks_beside_a_service_that_cannot_be_copied():
  env = env_of(Locked(), noise=0.5)
  env.reset(HOUSES[0], 3)
  env.step('door open')
  other = env.fork()
  said = ['door shut', 'door open', 'door shut', DONE]
  assert [*map(env.step, said)] == [*map(other.step, said)]


def test_observations_fit_or_are_refused():
  c, words = pae.get_config(), Embedded()
  host_env.sized(fields.read(c), words, None)
  for switches, things in ((2, 1), (4, 4), (1, 3)):
    family = ProposedChores(switches=switches, things=things)
    for task, _, _ in family.tasks('test', 40, 0):
      assert len(family.describe(task)) <= len(family.longest)
  c.env.update(dict(switches=4, things=4))
  with errors.raises(ValueError, 'host.max_observation_tokens 128'):
    host_env.sized(fields.read(c), words, None)
  c.host.max_observation_tokens = 256
  c.model.positions = 0
  host_env.sized(fields.read(c), words, None)


def test_described_by_what_is_there():
  assert FAMILY.describe(HOUSES[0]) == 'want\n\n' + household.write(
    household.facts(HOUSES[0]['facts'])
  )
  assert FAMILY.describe(HIDDEN[0]).startswith('want\n')
  with errors.raises(ValueError, 'proposer'):
    FAMILY.env()


@pytest.mark.parametrize(
  ('fields', 'names'),
  [({'context': 'url'}, 'context url'), ({'tries': 0}, 'tries 0')],
)
def test_settings_that_cannot_be_used(fields, names):
  with errors.raises(ValueError, names):
    ProposedChores(**fields)
