"""Self-play benchmark of `experiments.bench`: inside jit, and over referees.

One policy has both seats of Kuhn poker. `games_jit` plays and scores a batch
in one program; `games_host` plays the same matches with the slot engine, each
by a referee in Python in a worker of its own. Weights, tasks and keys are the
same. How many are under way at a time suits each: all of them inside jit, and
few over referees, whose workers share the cores.
"""

import contextlib
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.configs import spiral
from agentrl.lab.bench import sampling
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.learner.algorithm import POLICY
from agentrl.run import build
from agentrl.run.play import sampler as sampler_lib
from agentrl.types import PyTree

ENVS = {'jit': 'kuhn_poker', 'host': 'agentrl.lab.bench.kuhn_table:KuhnTable'}
MATCHES = 16  # for each of a size's slots
TURNS, MESSAGE, OBSERVATION = 2, 2, 8  # of a seat; tokens, at most
FIRM = 10.0  # size of what an embedding says of the next token


@contextlib.contextmanager
def matches(
  size: SamplingBenchSize, data: str
) -> Iterator[dict[str, BenchCase]]:
  """Yields self-play of one batch, inside jit and over referees.

  The decoder is the config's own; its weights are made to play legal moves.
  """
  with contextlib.ExitStack() as stack:
    cases = {}
    for where, env in ENVS.items():
      s = experiment(size, data, env)
      play = stack.enter_context(sampler_lib.open_sampler(s))
      params, tried = mover(s), sampling.attempts(s)
      call = functools.partial(
        play.collect, params, tried, jax.random.key(1), jnp.int32(0)
      )
      batch, _ = call()
      seats, turns = len(batch.status), int(np.sum(batch.turns.valid))
      text = (
        f'{seats // 2} matches, {s.config.rollout.slots // 2} at a time,'
        f' {turns} turns,'
        f' {mesh.count(s.algorithm.context.modules[POLICY].specs):,} parameters'
      )
      makes = {'matches': seats // 2, 'turns': turns}
      base = '' if where == 'jit' else 'games_jit'
      cases[f'games_{where}'] = BenchCase(text, call, (), makes, base)
    yield cases


def experiment(
  size: SamplingBenchSize, data: str, env: str
) -> build.Experiment:
  """Builds self-play in an environment of ENVS."""
  c, own = (
    spiral.get_config(','.join(filter(None, (size.arg, f'env={x}'))))
    for x in (env, ENVS['jit'])
  )
  c.model.update(own.model)  # small models are smaller on hosts
  seats = 2 * MATCHES * size.batch
  slots = 2 * size.batch if c.rollout.kind == 'host' else seats
  c.data, c.micro_batch, c.sft.batch = data, seats, seats
  c.env.train = seats // 2
  c.rollout.update(
    dict(
      batch=seats,
      slots=slots,
      max_turns=TURNS,
      max_message_tokens=MESSAGE,
      history='turn',
    )
  )
  if c.rollout.kind == 'host':  # no program is longer than these matches need
    c.host.update(
      dict(
        max_observation_tokens=OBSERVATION,
        prefill_chunk=OBSERVATION,
        prefill_slots=slots // 2,
        decode_steps_per_sync=MESSAGE,
      )
    )
  return build.experiment(c)


def mover(s: build.Experiment) -> PyTree:
  """Makes weights that say p or b, alike often, and end the message.

  Embeddings are read as logits, too: of two directions that no other token
  has, the first leads from the end of an observation to a move, the second
  from a move to the end of turn.
  """
  tokenizer = s.tokenizer
  params = mesh.init(
    s.algorithm.context.modules[POLICY].specs, jax.random.key(0)
  )
  end, *moves = (tokenizer.encode(x)[0] for x in ('\n', 'p', 'b'))
  embed = params['embed'].at[:, :2].set(0.0)
  embed = embed.at[end, 0].set(FIRM)
  embed = embed.at[jnp.asarray(moves), :2].set(3 * FIRM)
  embed = embed.at[tokenizer.eot, 1].set(12 * FIRM)
  return {**params, 'embed': embed}
