"""Checks of judges whose scores come late (judge/late.py)."""

from agentrl import registry
from agentrl.configs.config import Config
from agentrl.judge import late
from agentrl.rollout import registered


def check(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that late scores are the same however late they are asked for."""
  needs = late.needs(spec)
  if not needs:
    return
  first = needs[0]
  for other in needs[1:]:
    if other.lag != first.lag:
      raise ValueError(
        f'{other.at} must be {first.lag}, as {first.at} is, since all late'
        f' judges answer for one batch at a time, got {other.lag}'
      )
  if registered.kind_of(spec).purify is not None:
    raise ValueError(
      'rollout.kind must be one that keeps failed calls for late scores of'
      f' {first.term!r}, which stand at turns as they were played, got'
      f' {c.rollout.kind!r}'
    )
  _check_services(c, spec, {x.term: x.at for x in needs})


def _check_services(
  c: Config, spec: registry.MethodSpec, late_terms: dict[str, str]
) -> None:
  """Checks that no late judge asks a model of this run."""
  for name in spec.judge:
    piece = registry.get('judge', name, 'c.judge')
    hp = registry.settings(piece, spec.values('judge', name))
    service = c.service.get(hp.get('service', ''))
    if hp['term'] in late_terms and service is not None and service.role:
      raise ValueError(
        f'service.{hp["service"]}.role must be empty for judge {name!r}, whose'
        f' scores come late ({late_terms[hp["term"]]}), since a role of this'
        f' run changes meanwhile, got {service.role!r}; set its function, run'
        ' or address'
      )
