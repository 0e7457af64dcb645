"""Validation of configs: one sentence for what does not fit.

All of it is found before anything is built or compiled.
"""

import dataclasses
import importlib.util
import math
import re
from collections.abc import Sequence

import jax
from ml_collections import ConfigDict

from agentrl import mesh, registry
from agentrl.configs import base, envs, stages
from agentrl.domain import COUNT0, OneOf, Real
from agentrl.env import base as base_env
from agentrl.judge import item as judge_item
from agentrl.learner import teacher
from agentrl.log import wandb_tracker
from agentrl.nn.transformer import DecoderConfig
from agentrl.rollout import registered
from agentrl.run import fields, reading_checks, stage_checks
from agentrl.schedule import SHAPES
from agentrl.service import chat_completions
from agentrl.service.base import Function

# Slots whose components run while trajectories are collected.
_COLLECTED = ('task', 'prefix', 'rollout', 'collect', 'judge', 'reward')


def config(c: ConfigDict) -> None:
  """One sentence for what does not fit, before anything expensive."""
  fields.check(c)
  r = c.rollout
  if r.batch % r.group_size:
    raise ValueError(
      f'rollout.batch={r.batch} is not a multiple of'
      f' rollout.group_size={r.group_size};'
      f' set rollout.batch to {-(-r.batch // r.group_size) * r.group_size}'
    )
  spec = base.wiring(c)
  on_host = registered.kind_of(spec).on_host
  _check_rollout(c, on_host)
  shape = {name: c.mesh[name] for name in mesh.AXES}
  open_ended = -1 in shape.values()
  here = len(jax.devices()) if open_ended else math.prod(shape.values())
  sizes = mesh.sizes(shape, here)
  devices = mesh.num_shards('batch', sizes)
  for name, size in (
    ('rollout.batch', r.batch),
    ('rollout.slots', r.slots),
    ('micro_batch', c.micro_batch),
    ('sft.batch', c.sft.batch),
  ):
    if size % devices:
      axes = (
        f'mesh.{x}={sizes[x]}' for x in mesh.RULES['batch'] if sizes[x] > 1
      )
      raise ValueError(
        f'{name}={size} is not divisible by {devices}, over which'
        f' {" and ".join(axes)} split rows; set it to'
        f' {-(-size // devices) * devices}'
      )
  if 'policy' not in c.role or c.role.policy.kind != 'train':
    raise ValueError('c.role.policy must exist and have kind train')
  for name, role in c.role.items():
    _check_loaded(c, name, role)
  if r.null_observation and r.history == 'turn' and r.window > 1:
    raise ValueError(
      f'rollout.null_observation={r.null_observation!r} replaces an'
      f' observation, but with rollout.window={r.window} a context holds'
      " several; set rollout.window to 1, or rollout.history to 'full'"
    )
  if 'blend' in c.signal and c.model.attention != 'xla':
    raise ValueError(
      f'model.attention={c.model.attention!r} has no forward mode, which signal'
      " 'blend' needs; set model.attention to 'xla'"
    )
  spare = [x for x in c.service if x not in envs.judge_services(c)]
  if spare and not on_host:
    raise ValueError(
      f'service.{spare[0]} answers host environments, and'
      f' env.name={c.env.name!r} is one inside jit; leave it out, or name a'
      ' judge in c.judge that asks it'
    )
  stages.check(c)
  registry.check(spec)
  for fits in (
    *(_check_teacher, _check_moved, _check_td),
    *(_check_select, _check_members, _check_prefix),
  ):
    fits(c, spec)
  alone = _check_frame, _check_adapter, _check_rows, _check_schedule
  for fits_alone in (*alone, reading_checks.hints, stage_checks.mix):
    fits_alone(c)
  reading_checks.teachers(spec)
  reading_checks.sampled(c, spec)
  if c.stage:
    _check_stages(c)


def _check_stages(c: ConfigDict) -> None:
  """Checks the config of every stage, which has no stages of its own."""
  plans = stages.plans(c)
  for plan in plans:
    if plan.config is not c:
      try:
        config(plan.config)
      except ValueError as error:
        raise ValueError(f'stage {plan.name}: {error}') from error
  stage_checks.found(plans)
  stage_checks.demonstrated(plans)
  stage_checks.prefixed(plans)


def _check_loaded(c: ConfigDict, name: str, role: ConfigDict) -> None:
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


def _check_teacher(c: ConfigDict, spec: registry.MethodSpec) -> None:
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


def _check_moved(c: ConfigDict, spec: registry.MethodSpec) -> None:
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


def _check_prefix(c: ConfigDict, spec: registry.MethodSpec) -> None:
  """Checks that branches and prefixes do not both give first turns."""
  if spec.prefix != 'none' and spec.collect in ('branch', 'branch_above'):
    raise ValueError(
      f'c.collect={spec.collect!r} repeats the first turns of other attempts,'
      f' and c.prefix={spec.prefix!r} gives some of a demonstration; set'
      " c.prefix to 'none', or c.collect to 'once'"
    )


# Role of the signals by temporal differences -> its kind, and has it heads.
_TD_ROLES = {
  'prm': ('train', False),
  'previous': ('ema', False),
  'value': ('train', True),
}


def _check_td(c: ConfigDict, spec: registry.MethodSpec) -> None:
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


def _check_select(c: ConfigDict, spec: registry.MethodSpec) -> None:
  """Checks that somebody marks the spans that loss terms look at."""
  marked = {x for x in registry.provided(spec) if x.startswith('span:')}
  for term, own in c.select.items():
    if 'span' in own and f'span:{own.span}' not in marked:
      names = sorted(x.removeprefix('span:') for x in marked)
      raise ValueError(
        f'select.{term}.span={own.span!r} is no part of messages here: rollout'
        f' {c.rollout.kind!r} of env.name={c.env.name!r} marks {names}; choose'
        ' one of them'
      )


def _check_rollout(c: ConfigDict, on_host: bool) -> None:
  """Checks that the rollout can play the environment as the method needs."""
  envs.check_name(c.env.name)
  if c.env.name in envs.JITTED:
    if on_host:
      raise ValueError(
        f"env.name={c.env.name!r} runs inside jit, and rollout.kind='host' is"
        " for the others; set rollout.kind to 'jit'"
      )
    return
  kind = registered.kind_of(base.wiring(c))
  if kind.purify is not None and c.rollout.history == 'turn':
    raise ValueError(
      f'rollout.kind={c.rollout.kind!r} takes failed calls out of the history'
      " that a row holds, and rows of rollout.history='turn' quote it; set"
      " rollout.history to 'full'"
    )
  if not on_host:
    raise ValueError(
      f'rollout.kind={c.rollout.kind!r} plays environments inside jit, and'
      f' env.name={c.env.name!r} is a host environment, whose rollouts do not'
      ' mark the parts of a message yet; set env.name to'
      f' {" or ".join(map(repr, envs.JITTED))}'
    )


def log(c: ConfigDict) -> None:
  """Checks that the tracker of metrics is installed."""
  if c.log.wandb:
    wandb_tracker.installed()


def terms(c: ConfigDict, names: tuple[str, ...]) -> None:
  """Checks that the environment gives the terms that the config needs."""
  w = base.wiring(c)
  gives = [g for g in w.gives if not g.startswith('term:')]
  gives += [f'term:{name}' for name in names]
  registry.check(w._replace(gives=tuple(gives)))


def family(c: ConfigDict) -> None:
  """Checks the settings of the family of c.env, and where it runs."""
  own = base_env.of(c.env.to_dict())
  if isinstance(own, base_env.ChecksSettings):
    own.check()
  worker = c.host.worker
  if isinstance(own, base_env.OwnProcess) and worker not in ('', 'process'):
    raise ValueError(
      f'host.worker={worker!r}, and environments of {c.env.name!r} need'
      " a process each; set it to 'process', or leave it empty"
    )


def programs(c: ConfigDict, family: base_env.EnvFamily) -> None:
  """Checks what a family that is played by programs needs."""
  if not isinstance(base_env.of(c.env.to_dict()), base_env.PlaysPrograms):
    return
  name = f'env.name={c.env.name!r} is played by programs'
  if not isinstance(family, base_env.PlaysPrograms):
    raise ValueError(
      f'service.judge scores messages of environments, and {name}; name a judge'
      ' in c.judge that asks it, or set env.grader'
    )
  for path, value, allowed in (
    ('rollout.history', c.rollout.history, ('full',)),
    ('prefix', c.prefix, ('none',)),
    ('rollout.system', c.rollout.system, ('',)),
    ('rollout.action_prefix', c.rollout.action_prefix, ('',)),
    ('host.worker', c.host.worker, ('', 'thread')),
  ):
    if value not in allowed:
      raise ValueError(
        f'{path}={value!r}, and {name}, which write their conversations'
        f' themselves; set it to {allowed[0]!r}'
      )
  for package in ('starlette', 'uvicorn'):
    if importlib.util.find_spec(package) is None:
      raise base_env.missing(package, 'host')


def services(c: ConfigDict, needs: tuple[str, ...], place: str) -> None:
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
    if name not in (*needs, *envs.judge_services(c)):
      raise ValueError(
        f'service.{name} is never called; env.name={c.env.name!r} calls'
        f' {needs}, c.judge={tuple(c.judge)} others; leave it out'
      )
    _check_service(c, name)


def judges(c: ConfigDict, terms: Sequence[str]) -> None:
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


def endpoint(service: ConfigDict) -> chat_completions.Endpoint:
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


def _check_service(c: ConfigDict, name: str) -> None:
  """Checks that a service has one source, which exists, and room to answer."""
  service, at = c.service[name], f'service.{name}'
  given = {source: service[source] for source in SOURCES if service[source]}
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
      f'{at}.role={service.role!r} is no language model of this run; choose'
      f' from {tuple(speakers)}'
    )


def oracle(c: ConfigDict) -> None:
  """Checks that a planner knows what its moves lead to."""
  at = f'env.oracle={c.env.oracle!r} is the next move of a planner, which'
  if c.env.name == 'sokoban' and (c.env.boxes != 1 or c.env.levels):
    raise ValueError(
      f'{at} generated levels with one box have, and env.boxes={c.env.boxes}'
      f" with env.levels={c.env.levels!r}; set boxes to 1 and levels to ''"
    )
  if c.env.name == 'frozen_lake' and c.env.slip:
    raise ValueError(f'{at} slippery ice does not obey; set env.slip to False')


def length(c: ConfigDict) -> None:
  """Checks that an environment of fixed length can end."""
  if c.rollout.max_turns < c.env.length:
    raise ValueError(
      f'env.length={c.env.length} turns never end within'
      f' rollout.max_turns={c.rollout.max_turns}; raise rollout.max_turns or'
      ' lower env.length'
    )


def _check_frame(c: ConfigDict) -> None:
  """Checks that the chat options go together."""
  r = c.rollout
  if r.chat_format == 'chat' and not c.model.path:
    raise ValueError(
      "rollout.chat_format='chat' is the template of a checkpoint, and the"
      " model is its own; set model.path, or rollout.chat_format to 'auto'"
    )
  if r.system and (r.chat_format == 'bare' or not c.model.path):
    raise ValueError(
      f'rollout.system={r.system!r} is a message in the chat template of a'
      " checkpoint; set model.path and rollout.chat_format to 'auto', or leave"
      ' it empty'
    )


def _check_adapter(c: ConfigDict) -> None:
  """Checks that the initial adapter has a base."""
  path = c.lora.path
  if path and not c.model.path:
    raise ValueError(
      f'lora.path={path!r} is an adapter of a checkpoint; set model.path to'
      ' that checkpoint, or leave lora.path empty'
    )
  if path and c.init:
    raise ValueError(
      f'lora.path={path!r} is an adapter of model.path, and init={c.init!r} has'
      ' a policy of its own; leave one of them empty'
    )
  if path and not c.lora.rank:
    raise ValueError(
      f'lora.path={path!r} is an adapter and lora.rank=0 is none; set'
      ' lora.rank, lora.alpha and lora.pattern to those of its'
      ' adapter_config.json'
    )


def _check_members(c: ConfigDict, spec: registry.MethodSpec) -> None:
  """Checks that a group can have the members that a link requires."""
  name, size = 'require_members', c.rollout.group_size
  for scope, slot, piece in registry.parts(spec):
    if (slot, piece) != ('link', name):
      continue
    hp = registry.settings(registry.get(slot, name), spec.values(scope, name))
    by_group = 'group' in hp['by'] and hp['unit'] == 'trajectory'
    if by_group and hp['least'] > size:
      raise ValueError(
        f'hp.{scope}.{name}.least={hp["least"]} members are more than'
        f' rollout.group_size={size}, so that nothing would be trained on; set'
        f' hp.{scope}.{name}.least to {size // 2 + 1}'
      )


def _check_schedule(c: ConfigDict) -> None:
  """Checks that scheduled paths name numbers, between two in their domain."""
  for path, values in fields.flat(c.schedule).items():
    kind, node = path.split('.')[0], c
    for part in path.split('.'):
      inside = isinstance(node, ConfigDict) and part in node
      node = node[part] if inside else None
    schedulable = kind in ('coef', 'hp') or re.fullmatch(
      r'role\.\w+\.lr|mix\.\w+\.weight', path
    )
    of = None
    if schedulable and isinstance(node, int | float):
      of = fields.domain_of(c, path)
    if of is None:
      raise ValueError(
        f'c.schedule.{path} names no number of this config; use coef.<stream'
        ' or term>, hp.<scope>.<piece>.<name>, role.<role>.lr or'
        ' mix.<source>.weight'
      )
    if kind == 'hp' and path.split('.')[1] in c.mix:
      raise ValueError(
        f'c.schedule.{path} is read once, when its source is; leave it out'
      )
    if kind == 'hp' and path.split('.')[1] in _COLLECTED:
      raise ValueError(
        f'c.schedule.{path} is read while trajectories are collected, and only'
        ' what the update reads can follow a schedule; weigh it as a stream by'
        ' coef.<stream> instead'
      )
    if not isinstance(values, tuple | list) or len(values) != 4:
      raise ValueError(
        f'c.schedule.{path}={values!r} must be (shape, start, end, steps)'
      )
    if isinstance(of, Real) and of.compiled:
      raise ValueError(
        f'c.schedule.{path}={values!r} changes a number that the update is'
        ' compiled for; leave it out'
      )
    if not isinstance(of, Real):
      raise ValueError(
        f'c.schedule.{path}={values!r} changes what is {of.explain()}, and only'
        ' what may be any number in between can follow a schedule; leave it out'
      )
    between = dataclasses.replace(of, infinite=False, most='')
    for name, x, value in zip(
      ('shape', 'start', 'end', 'steps'),
      (OneOf(*SHAPES), between, between, COUNT0),
      values,
      strict=True,
    ):
      x.check(f'c.schedule.{path}: {name}', value)


def qk_clip(c: ConfigDict, shape: DecoderConfig) -> None:
  """Checks that W_q and W_k are trained and attention logits grow."""
  for name, role in c.role.items():
    for field, value, why in (
      ('qk_norm', shape.qk_norm, 'the norms of this model undo'),
      ('lora.rank', c.lora.rank, 'stay as they are under adapters'),
    ):
      if role.get('qk_clip') and value:
        raise ValueError(
          f'role.{name}.qk_clip={role.qk_clip} scales W_q and W_k, which {why}'
          f' ({field}={value}); set role.{name}.qk_clip to 0'
        )


def positions(shape: DecoderConfig, needed: int, what: str = 'a row') -> None:
  """Checks that learned positions reach to the end of a row."""
  if 0 < shape.positions < needed:
    raise ValueError(
      f'model.positions={shape.positions} and {what} has {needed} tokens;'
      ' raise it, or set it to 0 for rotary positions alone'
    )


def room(c: ConfigDict, needed: int) -> None:
  """Checks that a full history can hold its first turn."""
  r = c.rollout
  if r.history == 'full' and 0 < r.context < needed:
    raise ValueError(
      f'rollout.context={r.context} tokens hold no first turn, which takes'
      f' up to {needed}; set it to more, or to 0 for whatever'
      f' rollout.max_turns={r.max_turns} need'
    )


def _check_rows(c: ConfigDict) -> None:
  """Checks that the rows of a batch divide into micro-batches."""
  each = c.rollout.max_turns if c.rollout.history == 'turn' else 1
  counts = {'rollout': c.rollout.batch, 'sft': c.sft.batch}
  spec = base.wiring(c)
  for name in _replaying(c):
    piece = registry.get('memory', name)
    n = registry.settings(piece, spec.values('memory', name))['n']
    counts[f'rollout and its {name}'] = c.rollout.batch + n
  for what, batch in counts.items():
    n = batch * each
    if n % c.micro_batch:
      divisor = next(
        d for d in range(min(c.micro_batch, n), 0, -1) if n % d == 0
      )
      raise ValueError(
        f'the {what} makes {n} rows, which micro_batch={c.micro_batch} does not'
        f' divide; set micro_batch to a divisor, such as {divisor}'
      )


def _replaying(c: ConfigDict) -> list[str]:
  """Memories that add to the batch; ValueError for more than one."""
  names = [
    name
    for name in c.memory
    if 'memory:replayed' in registry.get('memory', name, 'c.memory').gives
  ]
  if len(names) > 1:
    raise ValueError(
      f'c.memory={tuple(c.memory)} has {len(names)} memories that add old'
      f' trajectories to the batch, {names}; loss terms tell them apart by'
      f' source alone, so keep one, say {names[0]!r}'
    )
  return names
