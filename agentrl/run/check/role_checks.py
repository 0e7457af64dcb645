"""Checks of roles: runs and teachers.

All of it is found before anything is built or compiled.
"""

from agentrl import registry
from agentrl.configs.config import Config
from agentrl.configs.sections import RoleConfig
from agentrl.learner import teacher


def loaded(c: Config, name: str, role: RoleConfig) -> None:
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


def compared(c: Config, spec: registry.MethodSpec) -> None:
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
