"""AgentMath's partial rollouts: an iteration does not wait for its longest.

Paper: AgentMath: Empowering Mathematical Reasoning for Large Language Models
via Tool-Augmented Agent, 2512.20745.

  tau = tau_1 tau_2 ...    at most `segment` turns of an attempt in an iteration
  R = outcome + 1[right] min(R_max, alpha + beta calls);   A = z_group( R )
  A min( exp(log pi_old - log mu), 2 ),   mu: who wrote the token, then or now

An unfinished attempt goes on in the next iteration behind what it has, with
the log-probs and versions of its tokens; a group is trained on once all of its
members have ended (docs/STALENESS.md). The bonus for calls pays with a right
answer alone. hp.task.partial: segment 2 turns, 4 segments at most, as many as
the paper ends with; hp.reward.call_bonus: alpha 0, beta 0.05, R_max 0.1.

Departures: the paper's segments are bounded by tokens and calls, here by turns,
each of which has at most rollout.max_message_tokens. It sends requests to the
engine of least load, and host environments here have one engine. Groups that
agree have no advantage and are not made up for. Its numbers of the bonus are
not known to us. The paper trains models of up to 30B on olympiads; here the
task is countdown with a calculator, in up to 8 turns.

Expect GRPO's success from iterations that wait for 2 turns in place of 8;
`rollout/replayed` is the price, turns that environments play again.

  python -m experiments.train --config=configs/agentmath_partial.py \
    --workdir=runs/agentmath_partial
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='agentmath_partial', env='countdown')
  if c.env.name == 'countdown':
    c.rollout.max_turns = 8
  c.task, c.collect, c.memory = 'partial', 'partial', ('unfinished',)
  base.hp(c, 'task', 'partial', segment=2, segments=4)
  c.staleness.anchor = 'update'
  c.reward = ('outcome', 'call_bonus')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('truncated_is',)
  return base.finish(c)
