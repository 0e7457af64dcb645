"""GRPO (DeepSeekMath, 2402.03300) from top to bottom, in one file.

An agent finds a number from 0 to 4 in three guesses; to each wrong one the
answer is 'higher' or 'lower'. The network starts at random, finds a third of
the numbers, and nearly all of them after half a minute on two CPU cores:

  python -m examples.minimal_grpo

The library has all of this as slots that a config fills (configs/grpo.py).
Here only its parts are used: a decoder, the engine that samples from it, the
batch, and the arithmetic of `rl.ops`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import agentrl as rl
from agentrl import mesh, segment
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes

# The vocabulary: five numbers, which are their own ids, and four words.
NUMBERS, GUESSES = 5, 3
HIGHER, LOWER, START, END = range(NUMBERS, NUMBERS + 4)

TASKS, GROUP = 8, 16  # numbers to find in a step, attempts at each
CLIP, EPOCHS = 0.2, 4  # updates per batch; ratios of the first are 1
SHAPE = transformer.DecoderConfig(
  vocab=NUMBERS + 4,
  width=32,
  layers=2,
  heads=2,
  kv_heads=2,
  head_dim=16,
  mlp=64,
)
SIZES = Sizes(slots=TASKS * GROUP, capacity=2 * GUESSES, burst=1, chunk=8)
MODEL = policy.module(SHAPE)  # (params, rows, ('logp',)) -> log-probs [N, T]
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def answer(guess: int, number: int) -> int:
  """The environment: what is said to a wrong guess."""
  return HIGHER if guess < number else LOWER


def generate(engine: Engine, contexts: dict[int, list[int]], rng) -> dict:
  """Samples a message after each context: one token, with its log-prob."""
  for i, context in contexts.items():
    key = rng.integers(2**32, size=2, dtype=np.uint32)
    engine.submit(i, context, SamplingParams(key, budget=1))
  done = {}
  while engine.busy:
    engine.dispatch()  # prefills what is new of each context, decodes
    done |= {x.sequence: x for x in engine.collect()}
  return done


def rollout(engine: Engine, numbers: np.ndarray, rng) -> rl.Batch:
  """Plays an episode per number: reward 1 for the guess that finds it."""
  b = len(numbers)
  tokens, logp, reward = ([[] for _ in range(b)] for _ in range(3))
  context = [[[START]] for _ in range(b)]  # what was read before each guess
  history = {i: [START] for i in range(b)}  # of the episodes still played
  for turn in range(GUESSES):
    for i, message in generate(engine, history, rng).items():
      (guess,) = message.ids
      tokens[i].append(message.ids)
      logp[i].append(message.logp)
      reward[i].append(float(guess == numbers[i]))
      if guess == numbers[i] or turn == GUESSES - 1:
        del history[i]
        continue
      heard = [answer(guess, numbers[i])]
      context[i].append(heard)
      history[i] = history[i] + message.ids + heard
  group = np.arange(b) // GROUP
  return rl.Batch.from_turns(
    tokens, logp, reward=reward, group=group, context=context
  )


def group_advantage(batch: rl.Batch) -> jax.Array:
  """(R - mean) / (std + eps) over the attempts at a task, at each token."""
  returns = batch.turns.reward.sum(axis=1)  # [B]
  moments = rl.ops.group_moments(returns, batch.ids['group'])
  advantage = rl.ops.zscore(returns, moments)  # [B]
  return segment.index(batch).trajectories_to_tokens(advantage)  # [N, T]


def loss(params, batch: rl.Batch, advantage: jax.Array) -> jax.Array:
  """PPO's clipped loss; every trajectory weighs the same."""
  logp = MODEL.apply(params, batch.rows, ('logp',)).logp  # [N, T]
  log_ratio = rl.ops.log_ratio(logp, batch.rows.logp)
  value = rl.ops.ppo_clip(log_ratio, advantage, low=CLIP, high=CLIP)
  weight = batch.rows.weight  # 1 at sampled tokens; a row is a trajectory
  return jnp.mean(jnp.sum(weight * value, 1) / jnp.sum(weight, 1))


@jax.jit
def update(params, opt, batch: rl.Batch):
  """Takes EPOCHS optimizer steps on one batch."""
  advantage = group_advantage(batch)
  for _ in range(EPOCHS):
    grads = jax.grad(loss)(params, batch, advantage)
    updates, opt = OPTIMIZER.update(grads, opt, params)
    params = optax.apply_updates(params, updates)
  return params, opt


def train(steps: int = 60, seed: int = 0) -> list[float]:
  """Runs the loop; returns the share of numbers found in every step."""
  rng = np.random.default_rng(seed)
  params = mesh.init(transformer.specs(SHAPE), jax.random.key(seed))
  opt = OPTIMIZER.init(params)
  engine = Engine(SHAPE, SIZES, eot=END)
  success = []
  for step in range(steps):
    engine.update_weights(params, version=step)
    numbers = np.repeat(rng.integers(NUMBERS, size=TASKS), GROUP)
    batch = rollout(engine, numbers, rng)
    params, opt = update(params, opt, batch)
    success.append(float(batch.outcome.mean()))
    if step % 10 == 0:
      print(f'step {step:3d}  found {success[-1]:.0%}')
  return success


if __name__ == '__main__':
  train()
