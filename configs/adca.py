"""ADCA: outcome credit plus judged good and bad turns, each normalised alone.

Paper: AgentEvolver: Towards Efficient Self-Evolving Agent System, 2511.10395
(its self-attributing part, `decouple` in the code).

  q_k = alpha z_group(l_k) + [k is the last turn] z_group(R),   alpha = 0.1
  A(a_k) = sum of q_j over j >= k

l_k = +-0.2 is a judge's verdict, good or bad; its mean and deviation weigh
every trajectory of the group alike, whatever its turns. R is the return;
deviations are the population's (ddof 0). The code stabilises a deviation by
sqrt(var + eps), here std + eps. A failed judgement leaves the trajectory out.

The judge here is the solver: good is a move that made progress. With
`judged=attribution` it is a service, asked once about all turns, as there.
Left out are the optional 1 / sqrt(turns) and the wider clip of tokens that were
guided by experience. The code's optional decay of alpha is, in a config file,
over so many steps or (0) over the run:

  c.schedule.coef = {'attribution': ('cosine', 0.1, 0.0, 100)}

Missing: of AgentEvolver its self-questioning and self-navigating; this is the
third part, self-attributing.

  python -m experiments.train --config=configs/adca.py --workdir=runs/adca
"""

from agentrl.configs import base


def streams(c, attribution=()):
  """Adds attribution and outcome; links of `attribution` follow the label."""
  c.advantage = ('attribution', 'outcome')
  c.stream.attribution = ('add_label', *attribution, 'center', 'scale')
  c.stream.outcome = ('episode_return', 'center', 'scale', 'at_last_turn')
  c.coef.attribution = 0.1
  c.post = ('return_to_go',)
  base.hp(
    c,
    'attribution',
    'add_label',
    name=base.step_term(c),
    above=base.good_above(c),
    good=0.2,
    bad=-0.2,
  )
  for stream in c.advantage:
    base.hp(c, stream, 'scale', ddof=0)


def get_config(arg=''):
  c = base.get_config(arg, method='adca')
  streams(c)
  return base.finish(c)
