"""Checks of services and of the judges that ask them.

All of it is found before anything is built or compiled.
"""

from collections.abc import Sequence

import jax

from agentrl import registry
from agentrl.configs import base, envs
from agentrl.configs.config import Config
from agentrl.configs.sections import ServiceConfig
from agentrl.judge import item as judge_item
from agentrl.service import chat_completions
from agentrl.service.base import Function


def services(c: Config, needs: tuple[str, ...], place: str) -> None:
  """Checks that c.service names exactly the services the environment needs.

  Args:
    needs: names of the services that the environment asks.
    place: where environments live.
  """
  for name in needs:
    if name not in c.service:
      raise ValueError(
        f'env.name={c.env.name!r} asks the service {name!r}, and c.service has'
        f' {tuple(c.service)}; add it by base.service(c, {name!r})'
      )
  if needs and place != 'thread':
    raise ValueError(
      f'environments run in worker {place!r} and call services {needs}, which'
      " are in this process; set host.worker to 'thread' if they can run there"
    )
  for name in c.service:
    if name not in (*needs, *envs.component_services(c)):
      raise ValueError(
        f'service.{name} is never called; env.name={c.env.name!r} calls'
        f' {needs}, c.judge={tuple(c.judge)} others; leave it out'
      )
    _check_service(c, name)


def judges(c: Config, terms: Sequence[str]) -> None:
  """Checks that the judges fill different terms, and see whole groups.

  Args:
    terms: what the environment tells of each turn
  """
  spec, filled = base.wiring(c), dict[str, str]()
  for name in spec.judge:
    piece = registry.get('judge', name, 'c.judge')
    hp = registry.settings(piece, spec.values('judge', name))
    term, unit = hp['term'], judge_item.unit(piece, hp)
    if other := filled.get(term) or (term in terms and 'the environment'):
      raise ValueError(
        f'c.judge: {name!r} fills the term {term!r}, and so does {other}; set'
        f' hp.judge.{name}.term to another name'
      )
    filled[term] = repr(name)
    if unit not in judge_item.UNITS:
      raise ValueError(
        f'judge {name!r} is registered for {unit!r}; set takes to one'
        f' of {judge_item.UNITS}'
      )
    share = c.rollout.batch // c.rollout.group_size
    if unit == 'group' and share % jax.process_count():
      raise ValueError(
        f'judge {name!r} compares groups, and {share} groups cannot be split'
        f' over {jax.process_count()} processes; set rollout.batch to a'
        f' multiple of {c.rollout.group_size * jax.process_count()}'
      )


SOURCES = ('function', 'role', 'run', 'address')


def endpoint(service: ServiceConfig) -> chat_completions.Endpoint:
  """Returns the endpoint of a service that has an address."""
  return chat_completions.Endpoint(
    address=service.address,
    model=service.model,
    key_env=service.key_env,
    temperature=service.temperature,
    max_tokens=service.message,
    timeout=service.timeout,
    tries=service.tries,
    per_minute=service.requests_per_minute,
    input_price=service.input_price,
    output_price=service.output_price,
    budget=service.budget,
  )


def _check_service(c: Config, name: str) -> None:
  """Checks that a service has one source, which exists, and room to answer."""
  service, at = c.service[name], f'service.{name}'
  given = {x: getattr(service, x) for x in SOURCES if getattr(service, x)}
  if len(given) != 1:
    raise ValueError(
      f'{at} has {len(given)} sources, {given}; set exactly one of'
      f' {", ".join(f"{at}.{source}" for source in SOURCES)}'
    )
  if service.address:
    try:
      chat_completions.check(endpoint(service))
    except ValueError as error:
      raise ValueError(f'{at}: {error}') from error
  elif service.model or service.budget or service.requests_per_minute:
    raise ValueError(
      f'{at}.model={service.model!r}, budget={service.budget} and'
      f' requests_per_minute={service.requests_per_minute} are for a server;'
      f' set {at}.address, or leave them out'
    )
  elif service.context <= service.message:
    raise ValueError(
      f'{at}.context={service.context} holds no question beside an answer of'
      f' {at}.message={service.message} tokens; set it to more'
    )
  if service.function:
    try:
      Function(service.function)
    except ValueError as error:
      raise ValueError(f'{at}.function={error}') from error
  speakers = [r for r in c.role if r == 'policy' or not c.role[r].heads]
  if service.role and service.role not in speakers:
    raise ValueError(
      f'{at}.role must be a language model of this run, one of'
      f' {tuple(speakers)}, got {service.role!r}'
    )
