"""Defaults of a run that begins from a checkpoint: `checkpoint=DIR`.

configs/base.py has the defaults for a small model trained from scratch. These
are for a language model that reasons before it acts; learning rates, clipping
and groups follow the defaults of verl, TRL and SkyRL. `small` changes them for
a model of some 100M parameters, on two cores and 24 GB: it answers at once,
since what it would reason is babble, and is warmed up by demonstrations, since
it never succeeds by itself.
"""

from typing import Any

SCRATCH_LR, LR, LORA_LR = 6e-4, 1e-6, 1e-5  # of the policy
# Of other roles: from here on a rate is for a network that knows nothing.
HIGH_LR = 5e-4
FIELDS: dict[str, Any] = {
  'micro_batch': 8,
  'model': dict(dtype='auto', remat='layer'),
  'rollout': dict(group_size=8, history='full', max_message_tokens=256),
  'sft': dict(steps=0, lr=1e-5),
  'eval': dict(episodes=200),
}
SMALL_LR, SMALL_LORA_LR = 2e-5, 5e-4
SMALL: dict[str, Any] = {
  'micro_batch': 16,
  'steps': 60,
  'model': dict(remat='none'),
  'rollout': dict(batch=64, max_message_tokens=48),
  'sft': dict(steps=12, warmup=2),
}
KNOWN_SMALL = ('smollm2',)  # checkpoints by name
PREFIX = 'Action:\n'  # a newline ends a token, so an action has the same ones
ACT = (
  'Think briefly about what to do. Then end your message with the line'
  ' "Action:" and, on the line after it, {}.'
)
TAGS = 'Write your answer as <answer>...</answer> and no more.'
ANSWER = (
  'Think step by step, then write your final answer as <answer>...</answer>.'
)
# How messages of environments that take an answer or a call out of any text
# are to be written; their own system text says more. All others take an ACT.
TAGGED = {
  'jsonl': ANSWER,
  # They write their conversations themselves.
  **dict.fromkeys(('program', 'verifiers'), ''),
  'reasoning_gym': ANSWER,
  **dict.fromkeys(
    (
      'countdown', 'fact_corpus', 'math_python', 'proposed_countdown',
      'proposed_facts', 'search_questions', 'shop', 'shop_logs',
      'sql_questions', 'table_questions', 'unreliable_tools',
    ),
    'Think step by step before you act.',
  ),
}  # fmt: skip
# Environments inside jit have no text that explains them.
RULES = {
  'sokoban': (
    'You play Sokoban: push every box onto a target. The board: # wall, _'
    ' floor, O target, X box, * box on a target, P you, S you on a target. A'
    ' line below it such as P14X22O33 gives row and column, from 0, of you,'
    ' the boxes and the targets.'
  ),
  'frozen_lake': (
    'You cross a frozen lake: reach the goal G and keep off the holes H. S is'
    ' the start, _ is ice and P is you.'
  ),
  'bifurcation': (
    'Choose a direction in every turn. When the text shows the first letter of'
    ' a direction as a sign, choose that direction.'
  ),
}
MOVES = {
  'sokoban': 'up, down, left or right',
  'frozen_lake': 'left, down, right or up',
  'bifurcation': 'left, right, up or down',
}


def fit(c: Any, path: str, *, rank: int, small: bool) -> None:
  """Sets the defaults of a run that begins from the checkpoint `path`.

  rank: of adapters to train instead of all weights; 0: train all weights
  small: the model is too small to reason before it acts
  """
  c.update(FIELDS)
  c.model.path, c.lora.rank, name = path, rank, c.env.name
  lr = LORA_LR if rank else LR
  if rank:
    c.sft.lr = 1e-4
  if small := small or path in KNOWN_SMALL:
    c.update(SMALL)
    lr = c.sft.lr = SMALL_LORA_LR if rank else SMALL_LR
  c.role.policy.update(dict(lr=lr, b2=0.999, eps=1e-8))
  if c.rollout.kind == 'host':
    size = c.host.max_observation_tokens
    c.host.max_observation_tokens = max(size, 512)
  for field in ('teach', 'rules'):  # of families that leave them out if small
    if field in c.env:
      c.env[field] = True
  if small:
    _answer_at_once(c)
    return
  if name in TAGGED:
    c.rollout.system = TAGGED[name]
    return
  act = ACT.format(f'one of {MOVES[name]}' if name in MOVES else 'your action')
  c.rollout.system = f'{RULES[name]} {act}' if name in RULES else act
  c.rollout.action_prefix = PREFIX


def _answer_at_once(c: Any) -> None:
  """Asks for an action, or an answer, and nothing before it."""
  name = c.env.name
  if name in RULES:
    c.rollout.system = f'{RULES[name]} Answer with {MOVES[name]} and no more.'
    c.rollout.max_message_tokens = 8
  elif name == 'reasoning_gym':
    c.rollout.system = TAGS


def scale_rates(c: Any) -> None:
  """Lowers the rates of other trained roles as the policy's was lowered."""
  rates = LR, LORA_LR, SMALL_LR, SMALL_LORA_LR
  if not c.model.path or c.role.policy.get('lr') not in rates:
    return
  for name, role in c.role.items():
    if name != 'policy' and role.get('lr', 0.0) >= HIGH_LR:
      role.lr *= c.role.policy.lr / SCRATCH_LR
