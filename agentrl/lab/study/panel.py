"""Panel of a comparison: its tasks, their order and its seeds, with a hash.

It is written to panel.json before the first run, and a command that would play
another one in the same folder is refused: what is compared does not change
with the machine. Its hash is in the report and on the page.

  {'seeds': {'pairs': [...], 'tuning': [...]},
   'tasks': {env: {'pairs': ..., 'tuning': ...}}}

Of tables a seed has a content key of its tasks, in the order of the seeds. Of
trained runs tasks are [{'arms': [...], 'train': [keys], 'test': [keys]}], in
the order of their indices, from which a run's seed draws what it plays.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.configs.config import to_dict
from agentrl.env import splits
from agentrl.lab.study import execute
from agentrl.lab.study.spec import Study
from agentrl.lab.tabular import mdp, train
from agentrl.lab.tabular.build import TabularSize
from agentrl.run import build
from agentrl.runtime import storage

FILE = 'panel.json'
WARM = 'warm start'  # beside the arms
Panel = Mapping[str, Any]


def panel(s: Study, workdir: str) -> Panel:
  """Returns the panel of a study; task sets that are not stored yet are made.

  Args:
    workdir: of the study
  """
  tasks = _of_tables(s) if s.by == 'tabular' else _of_runs(s, workdir)
  return {'seeds': execute.seeds(s), 'tasks': tasks}


def digest(of: Panel) -> str:
  """Hashes a panel (SHA-256), whatever the order of its names."""
  text = json.dumps(of, sort_keys=True, separators=(',', ':'))
  return hashlib.sha256(text.encode()).hexdigest()


def keep(s: Study, workdir: str) -> str:
  """Writes the panel before the first run; returns its hash.

  Raises:
    ValueError: the folder is of a comparison with another panel.
  """
  path = os.path.join(workdir, FILE)
  text = json.dumps(panel(s, workdir), indent=1) + '\n'
  there, here = json.loads(storage.write_once(path, text)), json.loads(text)
  if there != here:
    raise ValueError(
      f'{path} names other tasks or seeds ({digest(there)[:16]}) than this'
      f' command plays ({digest(here)[:16]}); compare in another --workdir,'
      ' or with the versions and files with which it was begun'
    )
  return digest(here)


def _of_tables(s: Study) -> dict[str, dict[str, list[str]]]:
  return {
    env: {
      kind: mdp_keys({**s.changes, **e.changes}, numbers)
      for kind, numbers in execute.seeds(s).items()
    }
    for env, e in s.envs.items()
  }


def mdp_keys(arguments: Mapping[str, Any], numbers: list[int]) -> list[str]:
  """Returns a content key of the tasks of every seed.

  Args:
    arguments: of `tabular.train.curves`
  """
  world = mdp.WORLDS[arguments['world']](**(arguments.get('settings') or {}))
  size = arguments.get('size') or TabularSize()
  draw = lambda seed: train.draw_tasks(world, size.tasks, seed)  # noqa: E731
  drawn = jax.device_get(jax.vmap(draw)(jnp.asarray(numbers, jnp.uint32)))
  of_seed = lambda i: jax.tree.map(lambda x: x[i], drawn)  # noqa: E731
  return [_mdp_key(of_seed(i)) for i in range(len(numbers))]


def _mdp_key(tasks: mdp.MDP) -> str:
  """Hashes what is whole in it; its potential follows from that."""
  whole = (tasks.next, tasks.start, tasks.won, tasks.over)
  numbers = [np.asarray(x, '<i4') for x in whole]
  shapes = repr([x.shape for x in numbers] + [f'{float(tasks.slip):.6g}'])
  return splits.content_key(
    shapes.encode() + b''.join(x.tobytes() for x in numbers)
  )


def _of_runs(s: Study, workdir: str) -> dict[str, dict[str, list[dict]]]:
  sets: dict[str, tuple[list[str], list[str]]] = {}  # by settings: made once
  out: dict[str, dict[str, list[dict]]] = {}
  for env in s.envs:
    out[env] = {}
    for kind, numbers in execute.seeds(s).items():
      entries: dict[str, dict] = {}
      tuning = kind == 'tuning'
      for name, c in _configs(s, workdir, env, numbers[0], tuning):
        source = json.dumps([to_dict(c.env), c.data], default=str)
        if source not in sets:
          train_set, test_set = build.task_sets(c)
          sets[source] = train_set.keys, test_set.keys
        entry = entries.setdefault(source, {'arms': []})
        entry['arms'].append(name)
        entry['train'], entry['test'] = sets[source]
      out[env][kind] = list(entries.values())
  return out


def _configs(
  s: Study, workdir: str, env: str, seed: int, tuning: bool
) -> Iterator[tuple[str, Any]]:
  """Returns the config of the warm starts and of every arm."""
  for arm in s.arms:
    a = execute.RunRequest(env, arm.name, s.rate, seed, tuning)
    ours, warm = execute.planned(s, workdir, a)
    if arm is s.arms[0]:
      yield WARM, warm.config
    yield arm.name, ours.config
