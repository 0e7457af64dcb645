"""Configs of small runs, for several tests of agentrl/run."""

from agentrl.configs import grpo

SMALL = {
  'micro_batch': 8,
  'sft.batch': 8,
  'model.layers': 1,
  'model.width': 16,
  'model.heads': 2,
  'model.kv_heads': 2,
  'model.head_dim': 8,
  'model.mlp': 32,
  'rollout.batch': 8,
  'rollout.slots': 8,
  'rollout.max_turns': 4,
  'env.train': 16,
  'env.test': 4,
  'eval.episodes': 8,
}


def countdown(arg='tiny,env=countdown', **changes):
  c = grpo.get_config(arg)
  c.env.update(dict(train=8, test=4))
  c.rollout.slots = 4
  for path, value in changes.items():
    node, names = c, path.split('__')
    for name in names[:-1]:
      node = node[name]
    node[names[-1]] = value
  return c


def interview(tmp_path, arg='tiny,env=interview', **user):
  c = grpo.get_config(arg)
  c.data = str(tmp_path / 'data')
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.rollout.update(
    dict(batch=4, group_size=2, slots=2, max_turns=2, max_message_tokens=6)
  )
  c.env.update(dict(train=4, test=4))
  c.micro_batch = c.sft.batch = 4
  c.host.update(dict(prefill_chunk=8, decode_steps_per_sync=4))
  if user:
    c.service.user.update(dict(function='', message=5, context=200, **user))
  return c


def two_layers(c, folder):
  """Two steps of a decoder of two layers, without a warm start."""
  c.data = str(folder / 'data')
  c.model.update(dict(width=16, layers=2, heads=2, kv_heads=2, head_dim=8))
  c.rollout.update(dict(batch=8, group_size=4, slots=8, max_turns=4))
  c.rollout.max_message_tokens = 8
  c.micro_batch, c.steps, c.sft.steps = 8, 2, 0
  c.eval.episodes = 4
  c.checkpoint.every = 1
  return c


def checkpoint(folder, path):
  c = grpo.get_config('tiny')
  c.data = str(folder)
  c.model.path = str(path)
  c.steps, c.micro_batch, c.sft.steps, c.sft.batch = 2, 16, 3, 8
  c.rollout.update(dict(batch=8, slots=8, max_turns=2))
  c.env.update(dict(train=16, test=4))
  c.eval.episodes = 8
  return c
