"""Names of config fields and metrics that changed, and what they are now.

Run folders written under the old names are migrated when they are read, and
an old flag is refused with the new name. docs/RENAMED.md lists the tables.
"""

from collections.abc import Mapping
from typing import Any

# Old path -> new path; '*' is any one name. A field, or a whole section.
FIELDS: Mapping[str, str] = {
  'rollout_kind': 'rollout.kind',
  'micro': 'micro_batch',
  'reduce': 'loss_aggregation',
  'plan': 'minibatch',
  'hp.plan': 'hp.minibatch',
  'finish': 'post',
  'hp.finish': 'hp.post',
  'coef.finish': 'coef.post',
  'rollout.message': 'rollout.max_message_tokens',
  'rollout.turns': 'rollout.max_turns',
  'rollout.group': 'rollout.group_size',
  'rollout.anchor': 'rollout.state_hash_fraction',
  'rollout.tag': 'rollout.action_prefix',
  'rollout.nulled': 'rollout.null_observation',
  'rollout.frame': 'rollout.chat_format',
  'host.heard': 'host.max_observation_tokens',
  'host.sessions': 'host.num_envs',
  'host.burst': 'host.decode_steps_per_sync',
  'host.chunk': 'host.prefill_chunk',
  'host.lanes': 'host.prefill_slots',
  'host.seconds': 'host.step_timeout',
  'host.start': 'host.reset_timeout',
  'host.patience': 'host.episode_timeout',
  'host.place': 'host.worker',
  'host.stop': 'host.stop_strings',
  'role.*.decay': 'role.*.weight_decay',
  'role.*.final': 'role.*.final_lr_fraction',
  'role.*.clip': 'role.*.max_grad_norm',
  'log.held_out': 'log.eval_trajectories',
}
# Values of a field that are called otherwise now.
VALUES: Mapping[str, Mapping[str, str]] = {
  'role.*.kind': {'average': 'ema'},
}
# Old metric -> new metric; '*' is whatever stands before or after.
METRICS: Mapping[str, str] = {
  'logp/gap': 'logp/sampler_mismatch',
  'logp/gap_max': 'logp/sampler_mismatch_max',
  'eval/low': 'eval/ci_low',
  'eval/high': 'eval/ci_high',
  'value/explained': 'value/explained_variance',
  'prm/distance': 'prm/kl',
  '*/kl_old': '*/approx_kl',
  '*/clip_low': '*/clip_frac_low',
  '*/clip_high': '*/clip_frac_high',
  '*/skipped': '*/nonfinite_skips',
  'advantage/finish/*': 'advantage/post/*',
  'advantage/*/flat': 'advantage/*/zero_variance_frac',
  'advantage/*/abs': 'advantage/*/abs_mean',
  'rollout/fault/raise': 'rollout/fault/exception',
  'rollout/fault/time': 'rollout/fault/timeout',
  'rollout/fault/died': 'rollout/fault/crash',
  'rollout/fault/output': 'rollout/fault/oversize',
  'rollout/fault/answer': 'rollout/fault/malformed',
  'rollout/engine/read': 'rollout/engine/prefilled',
  'rollout/engine/shared': 'rollout/engine/prefix_hits',
  'rollout/engine/written': 'rollout/engine/decoded',
  'rollout/engine/lost': 'rollout/engine/discarded',
}

# Part of a leaf's path in a checkpoint -> what it is called now.
LEAVES: Mapping[str, str] = {
  'memory/replay/kept/': 'memory/replay/trajectories/',
}


def new_leaf(path: str) -> str:
  """The present path of a leaf of a checkpoint."""
  for old, new in LEAVES.items():
    path = path.replace(old, new)
  return path


def new_field(path: str) -> str | None:
  """The present path of a field or hyper-parameter; None if it has no other."""
  names = path.split('.')
  scheduled = names[:1] == ['schedule']
  here = names[scheduled:]
  for old, new in FIELDS.items():
    pattern, to = old.split('.'), new.split('.')
    if len(here) >= len(pattern) and all(
      p in ('*', x) for p, x in zip(pattern, here, strict=False)
    ):
      head = [here[i] if x == '*' else x for i, x in enumerate(to)]
      return '.'.join([*names[:scheduled], *head, *here[len(pattern) :]])
  return None


def migrate_config(config: dict[str, Any]) -> dict[str, Any]:
  """The nested config of a run under today's names; those stay as they are."""
  for tree in (config, config.get('schedule', {})):
    for old, new in FIELDS.items():
      *path, name = old.split('.')
      for section in _sections(tree, path):
        if name in section:
          node, (*below, last) = section, new.split('.')[len(path) :]
          value = node.pop(name)
          for part in below:
            node = node.setdefault(part, {})
          node.setdefault(last, value)
  for field, words in VALUES.items():
    *path, name = field.split('.')
    for section in _sections(config, path):
      if name in section:
        section[name] = words.get(section[name], section[name])
  return config


def _sections(tree: dict[str, Any], path: list[str]) -> list[dict[str, Any]]:
  """The dicts at a path; '*' goes into each."""
  nodes = [tree]
  for name in path:
    nodes = [
      x
      for node in nodes
      for x in (node.values() if name == '*' else [node.get(name)])
      if isinstance(x, dict)
    ]
  return nodes


def new_metric(name: str) -> str:
  """The present name of a metric, which may be its old one."""
  for old, new in METRICS.items():
    before, star, after = old.partition('*')
    if not star:
      name = new if name == old else name
    elif (
      len(name) > len(before + after)
      and name.startswith(before)
      and name.endswith(after)
    ):
      middle = name[len(before) : len(name) - len(after)]
      name = new.replace('*', middle)
  return name
