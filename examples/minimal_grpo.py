"""GRPO (DeepSeekMath, 2402.03300) from top to bottom, in one file.

An agent finds a number from 0 to 4 in three guesses; to each wrong one the
answer is 'higher' or 'lower'. The network starts at random, finds a third of
the numbers, and nearly all of them after half a minute on two CPU cores:

  python -m examples.minimal_grpo

The library has all of this as slots that a config fills (configs/grpo.py).
Here only its parts are used: a policy to sample from and to differentiate, the
batch, and the arithmetic of `rl.ops`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

import agentrl as rl
from agentrl import segment

# The vocabulary: five numbers, which are their own ids, and four words.
NUMBERS, GUESSES = 5, 3
HIGHER, LOWER, START, END = range(NUMBERS, NUMBERS + 4)

TASKS, GROUP = 8, 16  # numbers to find in a step, attempts at each
CLIP, EPOCHS = 0.2, 4  # updates per batch; ratios of the first are 1
MODEL = dict(width=32, layers=2, heads=2, kv_heads=2, head_dim=16, mlp=64)
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def answer(guess: int, number: int) -> int:
  """Answers a wrong guess, as the environment."""
  return HIGHER if guess < number else LOWER


def rollout(policy: rl.Policy, numbers: np.ndarray, seed: int) -> rl.Batch:
  """Plays an episode per number: reward 1 for the guess that finds it."""
  b = len(numbers)
  tokens, logp, reward = ([[] for _ in range(b)] for _ in range(3))
  context = [[[START]] for _ in range(b)]  # what was read before each guess
  history = {i: [START] for i in range(b)}  # of the episodes still played
  for turn in range(GUESSES):
    playing, prompts = list(history), list(history.values())
    messages = policy.sample(prompts, max_tokens=1, seed=seed, slots=b)
    for i, message in zip(playing, messages, strict=True):
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
  """Returns (R - mean) / (std + eps) over a task's attempts, at each token."""
  returns = batch.turns.reward.sum(axis=1)  # [B]
  moments = rl.ops.group_moments(returns, batch.ids['group'])
  advantage = rl.ops.zscore(returns, moments)  # [B]
  return segment.index(batch).trajectories_to_tokens(advantage)  # [N, T]


def loss(params, policy: rl.Policy, batch: rl.Batch, advantage) -> jax.Array:
  """Computes PPO's clipped loss; every trajectory weighs the same."""
  logp = policy.forward(params, batch.rows).logp  # [N, T]
  log_ratio = rl.ops.log_ratio(logp, batch.rows.logp)
  value = rl.ops.ppo_clip(log_ratio, advantage, low=CLIP, high=CLIP)
  weight = batch.rows.weight  # 1 at sampled tokens; a row is a trajectory
  return jnp.mean(jnp.sum(weight * value, 1) / jnp.sum(weight, 1))


@functools.partial(jax.jit, static_argnums=0)
def update(policy: rl.Policy, params, opt, batch: rl.Batch):
  """Takes EPOCHS optimizer steps on one batch."""
  advantage = group_advantage(batch)
  for _ in range(EPOCHS):
    grads = jax.grad(loss)(params, policy, batch, advantage)
    updates, opt = OPTIMIZER.update(grads, opt, params)
    params = optax.apply_updates(params, updates)
  return params, opt


def train(steps: int = 60, seed: int = 0) -> list[float]:
  """Runs the loop; returns the share of numbers found in every step."""
  rng = np.random.default_rng(seed)
  policy = rl.Policy.init(eot=END, seed=seed, vocab=NUMBERS + 4, **MODEL)
  opt = OPTIMIZER.init(policy.params)
  success = []
  for step in range(steps):
    numbers = np.repeat(rng.integers(NUMBERS, size=TASKS), GROUP)
    batch = rollout(policy, numbers, seed=step)
    policy.params, opt = update(policy, policy.params, opt, batch)
    success.append(float(batch.outcome.mean()))
    if step % 10 == 0:
      print(f'step {step:3d}  found {success[-1]:.0%}')
  return success


if __name__ == '__main__':
  train()
