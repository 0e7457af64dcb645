"""Polar: any agent program, trained through the address that it calls.

Paper: Polar: Agentic RL on Any Harness at Scale, 2605.24220.

  z   = p₁ a₁ u₁ a₂ u₂ ... a_K     prompt, sampled tokens, what came between
  A   = (R - mean) / (std + eps)   of the program's own reward, in its group
  A w with w = min( exp(log pi_old - log mu), 2 );  weight 1 for a_k alone

A program's calls are merged where a prompt begins with all that was read and
sampled before; what is rewritten, and any sub-agent, begins another chain. The
chains of a session are branches of one trajectory, which counts once whatever
their number. Sampled tokens are never rendered again. The paper's stages of
containers and its evaluators are the user's: c.env.command may start one.

Departures: the paper trains several sizes on software tasks with Codex, Claude
Code and others; here the program is one of the examples, on sums, and another
is named by --config.env.command and --config.env.path. The paper's update count
per session (1185 before merging, 218 after) is rollout/program/calls against
the rows of a batch.

Expect branches only of programs that rewrite their history, log-probs of the
sampler that are the learner's, and more success than with each call as a row
of its own, whose broadcast reward the paper saw exploited.

  python -m experiments.train --config=configs/polar.py:checkpoint=DIR \
    --workdir=runs/polar
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='polar', env='program')
  if c.env.name == 'program':
    c.env.command = 'python -m examples.command_line'
    c.env.path = 'examples/questions.jsonl'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('truncated_is',)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
