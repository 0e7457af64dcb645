"""Atom-Searcher: scored units of thought first, the answer later, in GRPO.

Paper: Atom-Searcher: Enhancing Agentic Deep Research via Fine-Grained Atomic
Thought Reward, 2508.12800.

  R = -1 where a message was not understood, else
      alpha_k R_atom + (1 - alpha_k) F1 of the answer,   A = z_group( R )

alpha_k falls linearly from 0.5 to 0 over the run. R_atom in [0, 1] is the mean
score of the units of a trajectory's thoughts, which stand between tags, such as
<OBSERVATION>Bako's home is Tebu.</OBSERVATION>. Tags are the policy's choice;
a trajectory that has none has R_atom = 0. Demonstrations think in two kinds of
units. By default they are scored by rules that compare them with the question
and with what was seen; `service.judge` makes the reward model of the paper of
it. With `judged=number` whole turns are scored, tags or not, as a comparison.
Its window on entropy is left out.

Expect GRPO's end, earlier. Seen so far, three seeds: an end -6.0 [-9.9, -2.1]
points from the answer's alone (docs/results/first_looks.md).

  python -m experiments.train --config=configs/atom_searcher.py \
    --workdir=runs/atom_searcher
"""

from agentrl.configs import base

UNITS = 'thought_units'
FORMAT = dict(terms=('invalid',), scales=(-1.0,), thresholds=(0.0,))


def get_config(arg=''):
  c = base.get_config(
    arg, method='atom_searcher', env='fact_corpus', judged=UNITS
  )
  if 'thoughts' in c.env:
    c.env.thoughts = True
    c.rollout.max_message_tokens = max(c.rollout.max_message_tokens, 96)
    if c.judge == (UNITS,):
      c.service.judge.function = 'agentrl.env.worlds.fact_corpus.atoms:judge'
  c.reward = ('gated_or_penalty',)
  base.hp(c, 'reward', 'gated_or_penalty', terms=('f1',))
  c.advantage = ('atoms', 'answer')
  total = 'episode_sum' if c.judge == (UNITS,) else 'episode_mean'
  c.stream.atoms = ('add_term', total, 'gate')
  base.hp(c, 'atoms', 'add_term', name=base.step_term(c))
  base.hp(c, 'atoms', 'gate', otherwise=-1.0, **FORMAT)
  c.stream.answer = ('episode_return',)
  c.post = ('center', 'scale')
  c.schedule.coef = {
    'atoms': ('linear', 0.5, 0.0, 0),
    'answer': ('linear', 0.5, 1.0, 0),
  }
  c.coef.atoms = c.coef.answer = 0.5
  return base.finish(c)
