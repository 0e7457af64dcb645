"""Environments of other packages: each keeps what `host` promises.

What is not installed is skipped, with the line that installs it.
"""

import dataclasses
import importlib.util
import itertools
import json
import pathlib
import pickle
import signal
import subprocess
import sys
import time
import types
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from agentrl import install
from agentrl.env import base, java, textarena
from agentrl.env.textworld import express

HOSTILE = ('', ' ', 'x' * 10_000, '\0', 'a\0b', '😀', 'quit', '-1', '1\n2', '[')


class Case(NamedTuple):
  """A family as it is tested."""

  name: str
  package: str
  extra: str
  fields: Mapping = types.MappingProxyType({})
  tasks: int = 3
  slow: bool = False


CASES = (
  Case('textworld_coin', 'textworld', 'games'),
  Case('textworld_coin', 'textworld', 'games', {'brief': False}, slow=True),
  Case('toy_text', 'gymnasium', 'games'),
  Case('toy_text', 'gymnasium', 'games', {'game': 'taxi'}),
  Case('toy_text', 'gymnasium', 'games', {'game': 'blackjack'}),
  Case('toy_text', 'gymnasium', 'games', {'game': 'cliff_walking'}),
  Case('toy_text', 'gymnasium', 'games', {'slippery': True}),
  Case('minigrid', 'minigrid', 'games'),
  Case(
    'minigrid', 'minigrid', 'games', {'id': 'BabyAI-BossLevel-v0'}, slow=True
  ),
  Case('minigrid', 'minigrid', 'games', {'id': 'MiniGrid-DoorKey-6x6-v0'}),
  # The next two packages take seconds to import.
  *(
    Case(
      name='textarena',
      package='textarena',
      extra='games',
      fields={'id': f'{game}-v0'},
      slow=True,
    )
    for game in sorted((*textarena.ALONE, *textarena.MOVES))
  ),
  *(
    Case(
      name='reasoning_gym',
      package='reasoning_gym',
      extra='games',
      fields={'dataset': dataset},
      slow=True,
    )
    for dataset in ('chain_sum', 'countdown', 'rush_hour', 'sudoku')
  ),
  *(
    Case(
      name='textworld_express',
      package='textworld_express',
      extra='java',
      fields={'game': game},
      slow=True,
    )
    for game in express.GAMES
  ),
  Case('scienceworld', 'scienceworld', 'java', slow=True),
)


def case_id(case: Case) -> str:
  return '-'.join([case.name, *(str(v) for v in case.fields.values())])


def param(case: Case):
  marks = [pytest.mark.slow] if case.slow else []
  if importlib.util.find_spec(case.package) is None:
    reason = f'needs {case.package}: {install.command(case.extra)}'
    marks.append(pytest.mark.skip(reason=reason))
  return pytest.param(case, id=case_id(case), marks=marks)


by_case = pytest.mark.parametrize('case', [param(case) for case in CASES])


def family(case: Case):
  return base.find(case.name)(**case.fields)


def play(env, task, said, seed=7):
  """-> every observation and reply, to the end."""
  out = [env.reset(task, seed)]
  for message in said:
    out.append(env.step(message))
    if out[-1].done:
      break
  return out


@by_case
def test_keeps_the_promises(case):
  """In one test, for what starts an environment may take seconds."""
  made = family(case)
  solved = list(made.solved('train', case.tasks, 0))
  env = pickle.loads(pickle.dumps(made)).env()
  try:
    for task in solved:
      demonstration_scores_one(made, env, task)
    same_again(env, solved[0])
    hostile_messages_are_answered(env, solved[0])
  finally:
    env.close()
    env.close()  # may be said twice


def demonstration_scores_one(made, env, task):
  assert json.loads(json.dumps(task.task)) == task.task
  if not task.said:
    return
  first, *replies = play(env, task.task, task.said)
  assert isinstance(first, str)
  assert first
  assert len(replies) == len(task.said)
  assert replies[-1].done
  assert replies[-1].score == pytest.approx(1.0)
  for reply in replies:
    assert not reply.invalid
    assert set(reply.facts) == set(made.columns)
    assert reply.text or reply.done


def same_again(env, task):
  """Of task, seed and messages, whatever came before."""
  said = ('nonsense', *task.said)
  once = play(env, task.task, said)
  assert play(env, task.task, said) == once


def hostile_messages_are_answered(env, task):
  for message in HOSTILE:
    env.reset(task.task, 0)
    for _ in range(2):
      reply = env.step(message)
      assert isinstance(reply.text, str)
      assert 0 <= reply.score < 1 or (reply.score == 1 and reply.done)
      if reply.done:
        break


@by_case
def test_splits_are_disjoint_and_repeat(case):
  made = family(case)
  train = list(made.solved('train', case.tasks, 0))
  test = list(made.solved('test', case.tasks, 0))
  keys = [t.key for t in (*train, *test)]
  assert len(set(keys)) == 2 * case.tasks
  assert list(made.solved('train', case.tasks, 0)) == train
  fewer = list(made.solved('train', case.tasks - 1, 0))
  assert fewer == train[:-1]
  with pytest.raises(ValueError, match=r'split .* is unknown'):
    next(iter(made.solved('valid', 1, 0)))


@pytest.mark.parametrize('name', sorted({case.name for case in CASES}))
def test_names_tell_settings_apart(name):
  made = base.find(name)()
  assert made.place == 'process'
  assert made.name() == base.find(name)().name()
  assert not set(made.name()) & set('/\\ :*?"<>|')
  for field in dataclasses.fields(made):
    if field.type in ('bool', bool):
      other = dataclasses.replace(
        made, **{field.name: not base.settings(type(made))[field.name]}
      )
      assert other.name() != made.name()


@pytest.mark.parametrize(
  ('name', 'fields', 'words'),
  [
    ('minigrid', {'id': 'CartPole-v1'}, "id='CartPole-v1' is no environment"),
    ('reasoning_gym', {'settings': '[]'}, 'no JSON object'),
    ('reasoning_gym', {'settings': '{"size": 3}'}, 'without seed and size'),
    ('textarena', {'id': 'Wordle-v0'}, 'needs the network'),
    ('textarena', {'id': 'Halma-v0'}, 'no game that is played here'),
    ('textworld_express', {'game': 'zork'}, "game='zork' is unknown"),
    ('toy_text', {'game': 'go'}, "game='go' is unknown"),
    ('toy_text', {'size': 1}, 'size=1'),
    ('textworld_coin', {'low': 0}, 'level 0 is none of TextWorld'),
    ('textworld_coin', {'low': 5, 'high': 3}, 'low=5 is above high=3'),
  ],
)
def test_bad_settings_are_one_sentence(name, fields, words):
  with pytest.raises(ValueError, match=words) as error:
    base.find(name)(**fields)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('case', CASES, ids=case_id)
def test_a_missing_package_says_how_to_get_it(case, monkeypatch):
  hidden = importlib.util.find_spec(case.package) is not None
  if hidden:
    monkeypatch.setitem(sys.modules, case.package, None)
  made = family(case)
  with pytest.raises(ValueError, match=rf'agentrl-jax\[{case.extra}\]'):
    made.env()
  # As packaging spells it: pip 23 finds no extra that is written otherwise.
  known = install.metadata().get_all('Provides-Extra')
  assert case.extra in known


@pytest.mark.parametrize('name', ['textworld_express', 'scienceworld'])
def test_without_java_one_is_told_so(name, monkeypatch):
  monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
  monkeypatch.setenv('PATH', '')
  with pytest.raises(
    ValueError, match=rf'{name.replace("_", "-")} needs .*java'
  ):
    base.find(name)().env()


def test_no_more_tasks_than_the_package_has():
  assert sorted(java.chosen([3, 1, 2], 'train', 3, 0)) == [1, 2, 3]
  with pytest.raises(ValueError, match='there are 3 test tasks, and 4 were'):
    java.chosen([3, 1, 2], 'test', 4, 0)


@pytest.mark.slow
@pytest.mark.skipif(
  importlib.util.find_spec('textworld_express') is None,
  reason=f'needs textworld-express: {install.command("java")}',
)
def test_java_ends_with_the_process_that_started_it():
  """Also where that had no time to say so."""
  code = (
    'import os\n'
    'from agentrl.env.textworld import express\n'
    'env = express.TextWorldExpress().env()\n'
    'print(env.world._gateway.java_process.pid, flush=True)\n'
    'os.kill(os.getpid(), 9)\n'
  )
  done = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=False
  )
  assert done.returncode == -signal.SIGKILL
  stat = pathlib.Path(f'/proc/{int(done.stdout)}/stat')
  end = time.monotonic() + 60
  while stat.exists() and stat.read_text().split()[2] != 'Z':
    assert time.monotonic() < end, 'Java lives on'
    time.sleep(0.1)


textworld_here = pytest.mark.skipif(
  importlib.util.find_spec('textworld') is None,
  reason=f'needs textworld: {install.command("games")}',
)


@pytest.mark.slow
@textworld_here
@pytest.mark.parametrize('level', [4, 103, 203])
def test_maps_follow_textworlds_own_law(level):
  """Its challenge's games have the rooms and the way that `coins` draws."""
  import textworld
  from textworld.challenges.tw_coin_collector import coin_collector

  from agentrl.env.textworld import maps

  length, dead = maps.size(level)
  for seed in range(3):
    options = textworld.GameOptions()
    options.seeds = seed
    game = coin_collector.make({'level': level}, options)
    links = [
      (f.name[0], f.arguments[1].name, f.arguments[0].name)
      for f in game.world.facts
      if f.name.endswith('_of')
    ]
    rooms = {f'r_{i}': {} for i in range(length * (dead + 1))}
    for side, here, there in links:
      rooms[here][side] = there
    way = ''.join(c[3] for c in game.walkthrough[:-1])
    ends = ''.join(
      next(s for s, r in rooms[f'r_{j % length}'].items() if r == f'r_{k}')
      for j, k in enumerate(range(length, length * (dead + 1)))
    )
    mine = [
      {side: f'r_{there}' for side, there in exits.items()}
      for exits in maps.Map(way, ends).exits()
    ]
    assert mine == list(rooms.values())


@pytest.mark.slow
@textworld_here
def test_a_torn_game_is_built_again(tmp_path):
  made = base.find('textworld_coin')(brief=False, folder=str(tmp_path))
  (task,) = itertools.islice(made.solved('test', 1, 3), 1)
  once = play(made.env(), task.task, task.said)
  (built,) = tmp_path.iterdir()
  whole = (built / 'game.z8').read_bytes()
  (built / 'game.z8').write_bytes(whole[: len(whole) // 2])
  assert play(made.env(), task.task, task.said) == once
  assert (built / 'game.z8').read_bytes()[:1000] == whole[:1000]
  assert len(list(tmp_path.iterdir())) == 1
