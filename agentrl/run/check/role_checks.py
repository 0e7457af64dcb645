"""Checks of roles: runs, teachers, averages and critics.

All of it is found before anything is built or compiled.
"""

from ml_collections import ConfigDict

from agentrl import registry
from agentrl.learner import teacher


def loaded(c: ConfigDict, name: str, role: ConfigDict) -> None:
  """Checks a role that is the policy of another run."""
  if not role.run:
    return
  if role.kind != 'frozen' or role.heads:
    raise ValueError(
      f'role.{name}.run={role.run!r} makes it the policy of that run, which'
      f" stays as it is; set role.{name}.kind to 'frozen' and heads to 0, not"
      f' {role.kind!r} and {role.heads}'
    )
  if c.lora.rank:
    raise ValueError(
      f'role.{name}.run={role.run!r} is a whole policy, and with'
      f' lora.rank={c.lora.rank} roles are adapters of one base; set lora.rank'
      ' to 0'
    )


def compared(c: ConfigDict, spec: registry.MethodSpec) -> None:
  """Checks that what the policy is compared with has words too."""
  compared = teacher.comparison(spec)
  if compared and c.role[compared.role].heads and compared.role != 'policy':
    name = compared.role
    raise ValueError(
      f'c.loss: {compared.term!r} compares distributions over words, and'
      f' role.{name}.heads={c.role[name].heads} makes role {name!r} a critic;'
      f' set role.{name}.heads to 0, or name a language model in'
      f' hp.{compared.term}.{compared.term}.role'
    )


def moved(c: ConfigDict, spec: registry.MethodSpec) -> None:
  """Checks that the role which follows the policy is there to be moved."""
  signal = 'moving_average'
  if signal not in spec.signal:
    return
  values = spec.values('signal', signal)
  name = registry.settings(registry.get('signal', signal), values)['role']
  role = c.role[name]
  if role.kind != 'ema' or role.heads:
    raise ValueError(
      f'hp.signal.{signal}.role={name!r} moves after the policy, and'
      f' role.{name} is of kind {role.kind!r} with heads={role.heads}; set its'
      " kind to 'ema' and its heads to 0"
    )


# Role of the signals by temporal differences -> its kind, and has it heads.
_TD_ROLES = {
  'prm': ('train', False),
  'previous': ('ema', False),
  'value': ('train', True),
}


def td(c: ConfigDict, spec: registry.MethodSpec) -> None:
  """Checks that the PRM is a language model and its value a critic."""
  for signal in ('td_prm', 'td_prm_by_outcome', 'td_error'):
    if signal not in spec.signal:
      continue
    for need in registry.needs(spec, 'signal', 'signal', signal):
      kind, _, name = need.partition(':')
      if kind != 'role':
        continue
      role, (wanted, headed) = c.role[name], _TD_ROLES[name]
      if role.kind != wanted or bool(role.heads) != headed:
        raise ValueError(
          f'c.signal: {signal!r} reads role {name!r}, which is of kind'
          f' {role.kind!r} with heads={role.heads}; set role.{name}.kind to'
          f' {wanted!r} and role.{name}.heads to {int(headed)}'
        )


def measured(spec: registry.MethodSpec) -> None:
  """Checks that a PRM's errors are measured where it is as it scores."""
  signal = 'prm_persistence'
  if signal not in spec.signal:
    return
  for i, name in enumerate(spec.signal):
    piece = registry.get('signal', name)
    if name == signal or 'role:prm' not in piece.needs:
      continue
    values = registry.settings(piece, spec.values('signal', name))
    if values.get('reference', 'old_logp') != 'old_logp':
      raise ValueError(
        f'c.signal: {signal!r} measures log-ratios to the policy, and'
        f' hp.signal.{name}.reference={values["reference"]!r}; set it to'
        f" 'old_logp', or leave {signal!r} out"
      )
    before = values.get('order') == 'score_then_update'
    if before != (spec.signal.index(signal) < i):
      where = 'before' if before else 'after'
      raise ValueError(
        f'c.signal={spec.signal}: {name!r} scores a batch {where} it learns'
        f' from it; put {signal!r} {where} it, where the PRM is as it scores'
      )
