"""A scripted policy for runs in which attempts write tasks for others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.env.worlds.fact_corpus import questions
from agentrl.learner import update
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.run.play import host_sampler, sampler
from agentrl.task.base import make_attempts
from tests.integration import half_good
from tests.integration.judged_methods_test import small

Scripts = Mapping[int, Sequence[str]]


def says(
  monkeypatch,
  scripts: Scripts | Callable[[Any, Sequence[Any]], Scripts],
  *,
  alone: bool = False,
  rest: bool = False,
) -> None:
  """Has attempt b of a batch say what stands in scripts[b].

  Args:
    scripts: or what makes them: (experiment, seeds of the attempts) -> scripts
    alone: only proposers do; all else is sampled
    rest: attempts that have no script are sampled, and do not fall silent
  """
  told: dict[int, Sequence[str]] = {}
  whole = host_sampler.HostSampler._sessions

  def sessions(self, generator, attempts, key, stopping, **fields):
    proposes = np.asarray(attempts.limit)[0] > 0  # the first of a unit
    if generator is self._engine and (proposes or not alone):
      words = self._s.tokenizer
      if not callable(scripts):
        told.update(scripts)
      elif proposes:  # solvers of the same units speak next
        told.clear()
        told.update(scripts(self._s, fields['tasks']))
      said = {
        b: [[*words.encode(x), words.eot] for x in told.get(b, ())]
        for b in range(len(attempts.task))
      }
      generator = ScriptedGenerator(said, words.eot)
      if rest:
        mine = told.__contains__
        generator = half_good.Partly(self._engine, generator, mine)
    return whole(self, generator, attempts, key, stopping, **fields)

  monkeypatch.setattr(host_sampler.HostSampler, '_sessions', sessions)


def collected(s):
  """A batch of units, and its metrics."""
  state = update.init(s.algorithm, jax.random.key(0))
  r = s.config.rollout
  index = np.arange(r.batch) // r.group_size
  attempts = make_attempts(index, r.group_size, r.max_turns, 1.0)
  with sampler.open_sampler(s) as playing:
    batch, measured = playing.collect(
      state.params['policy'], attempts, jax.random.key(1), 0
    )
  return batch, {k: float(v[0]) for k, v in measured.items()}


def config(module, folder, arg='tiny', **env):
  """Two units of a proposer and three solvers."""
  c = small(module.get_config(arg), folder)
  c.rollout.update(dict(batch=8, group_size=4))
  c.env.update(env)
  return c


def chains(corpus, kind: str) -> Iterator[tuple[str, str, str]]:
  """Yields (start, relation, end) of all relations of entities of a kind."""
  for start, relation in corpus.holds:
    entity = corpus.entities[start]
    end = questions.follow(corpus, start, [relation])[1]
    if (entity.kind, entity.split) == (kind, 'train') and end:
      yield start, relation, end


def asking(corpus, answer: str) -> list[tuple[str, str]]:
  """Returns (start, relation) of the chains that end at an answer."""
  every = (x for kind in ('person', 'place') for x in chains(corpus, kind))
  return [(start, relation) for start, relation, end in every if end == answer]
