"""RecRM-Bench: a reward model with a head for each of four dimensions.

Paper: RecRM-Bench: Benchmarking Multidimensional Reward Modeling for Agentic
Recommender Systems, 2605.11874.

  followed   one item, in form and within the user's instruction
  factual    what is said of the item is true
  relevant   the item has the word that the user asked for
  clicked    the user's behaviour

  judge  L = sum_d cross-entropy( sigmoid( h_d ), label_d ), one label in ten is
         wrong; the policy rests
  rl     the model is frozen, on tasks that it has not seen, and the policy
         learns from a hybrid reward, by GRPO:
         R = turns that the user stayed / turns + mean_k mean_d sigmoid( h_d )

Half of what is demonstrated is careless, so that there is something to judge.
In recommendation a lie is clicked: who believes that an item is new clicks it
sooner, and may leave once it sees that it is not. A reward model of clicks
alone cannot see that, which is the paper's single dimension, one scalar head:

  --config.hp.signal.multi_head_reward.dimensions="('clicked',)"

Missing: the paper's million logged entries (a data set of one's own takes the
place of terms), its reward models, which are language models that write a
verdict for each dimension, and the ranking of several items. It was read in its
abstract and data card, so the weights, which are equal, the outcome beside the
model, the world and its noise are ours. Its reward models are measured by their
accuracy, as here, each in its own dimension, on the tasks of the stage rl.

Expect accuracy_followed, _relevant and _factual above the share of what is
commoner, and rollout/factual to rise, with clicks alone to fall. Seen so far,
one seed of a smoke test: one head of four had learned and the hybrid was behind
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/recrm_bench.py \
    --workdir=runs/recrm_bench
"""

from agentrl.configs import base, heron

DIMENSIONS = 'followed', 'factual', 'relevant', 'clicked'


def get_config(arg=''):
  c = base.get_config(arg, method='recrm_bench', env='recommendation')
  dimensions = ('outcome',)
  if c.env.name == 'recommendation':
    dimensions = DIMENSIONS
    c.env.update(dict(asks=0.5, novelty=2.0, careless=0.5))
    c.rollout.max_message_tokens, c.host.max_observation_tokens = 16, 84
  signal = 'multi_head_reward'
  heron.learned_reward(c, signal, dimensions=dimensions, noise=0.1, steps=0)
  c.role.reward.heads = len(dimensions)
  c.stream.learned = ('episode_return', *c.stream.learned)
  learns = {'minibatch': 'none', f'hp.signal.{signal}.steps': 4}
  learns |= {'env.seed': 1_000_000}  # tasks that no other stage has
  base.stage(c, 'judge', steps=2 * c.steps, changes=learns)
  c.stages = ('sft', 'judge', 'rl')
  return base.finish(c)
