"""Low-parameter agents: tuned on agent and general data, and a vote by turn.

Paper: Enhancing the General Agent Capabilities of Low-Parameter LLMs through
Tuning and Multi-Branch Reasoning, 2403.19962.

  general  L = -sum log pi over conversations of another world, before tuning
  tune     the same L over batches of agent demonstrations and general ones,
           shares w_agent : w_general = 3 : 1
  play     a_k = mode{ a^1 .. a^n ~ pi(. | history) }, the most frequent of n
           messages at each turn; a malformed one counts last

No reward is used. Shares are `mix.agent.weight` and `mix.general.weight`; other
arms of the tuning, at equal steps:

  general SFT   --config.mix.agent.weight=0.0
  agent alone   --config.mix.general.weight=0.0

`eval/tune/invalid` is the share of the agent's turns that are malformed, at the
end of both stages. `experiments.search --searchers=sample,vote,vote_paths`
plays one path and several at one budget of calls, and prints the tokens,
success and malformed turns of each (docs/SEARCH.md, A vote).

Differs from the paper: demonstrations are a solver's, without plans, tool calls
or reflections, where GPT-4 plays all roles there; general data are of one small
world (errands, or a frozen lake inside jit). Shares and n are ours.

Missing: the decomposition of a task into smaller ones, and going back to
another branch where one fails; `mcts` does that by values.

Expect malformed turns of the agent to fall from all to few by tuning, and to
fewer by the vote. Seen so far, one seed: 100% to 6%; 4.2% in single attempts
to 0.6% by a vote of four, and 40% to 46% success, which may be chance.

  python -m experiments.train --config=configs/low_param_branch.py \
    --workdir=runs/low_param_branch
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='low_param_branch', env='household')
  world = {'env.name': 'frozen_lake'}
  if c.rollout.kind == 'host':
    # Three people: its conversations fit into the rows of the agent.
    world = {'env.name': 'errands', 'env.people': 3, 'env.train': 1000}
    world['micro_batch'] = 8  # also divides the batches of smaller runs
    world['rollout.max_message_tokens'] = c.rollout.max_message_tokens
    size = c.host.max_observation_tokens
    world['host.max_observation_tokens'] = size
  steps = max(1, c.sft.steps)  # none for a checkpoint
  base.stage(c, 'general', kind='sft', steps=steps, changes=world)
  base.source(c, 'agent', weight=3.0)
  base.source(c, 'general', of='general')
  mix = {'sft.mix': ('agent', 'general')}
  base.stage(c, 'tune', kind='sft', steps=8 * steps, changes=mix)
  c.stages = ('general', 'tune')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
