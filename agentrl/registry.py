"""Registry of the components of a method, and the check that they fit together.

A component is a function registered under (slot, name). It declares what it
`needs` from others and what it `gives` them, as strings `kind:name`:

  signal:<name>   an array in Signals        column:<name>  a column of turns
  term:<name>     what the environment or a judge says of each turn
  output:<name>   a field of Outputs         role:<name>    parameters
  reading:<name>  rows in another context    span:<name>    a token span
  arms            several arms per group     pairs          preferences
  tokenizer       the run's, as words=    correction    for the age of tokens
  age_factor      a correction that multiplies the advantage by pi_old / mu
  older_tokens    of several policy versions   late:<name>  a term, steps later
  newest_branches branches by the policy of now, of attempts by an older one
  given_turns     attempts that go on from turns that were played before
  along_turns     credit of a turn that depends on others of its trajectory
  listed          pairs in the order of data      count:<name>  judges' metrics
  env:<ability>   fork, oracle, ...          memory:<name>  service:<name>

`{hp}` in such a string is replaced by that hyper-parameter of the component.
`*hp` expands a tuple of names to a column each, `term:*hp` to a term each; the
name OUTCOME stands for the task's own score, which every batch has. Links
declare the level they take and give: 'turn' ([B, K]) or 'token' ([N, T]); a
turn-level link cannot follow a token-level one. Of judges, see judge/item.py.

Hyper-parameters declare their domains as `Annotated` types (domain.py); what
they mean stands in the Args of the docstring, or as a text in that type.

A component brings its constraints and metrics; nothing else knows its name:

  check      (spec, config) -> what does not fit, one sentence; '' if all does
  metrics    (batch) -> {name: (sum, weight)} of a batch that was collected
  step       signals: the field that is a turn's reward [B, K]
  tabular    signals: a table can stand for its networks (lab/tabular)

`check` matches all of it before anything is compiled.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from agentrl import domain
from agentrl.runtime import objects

SLOTS = (
  'task',
  'recall',
  'prefix',
  'rollout',
  'collect',
  'judge',
  'reward',
  'curate',
  'signal',
  'link',
  'loss',
  'loss_aggregation',
  'memory',
  'minibatch',
  'edit',
)

OUTCOME = 'outcome'  # beside the names of terms: the task's own score
OWN = 'own'  # among the names of readings: the rows that were sampled


class Component(NamedTuple):
  slot: str
  name: str
  f: Callable[..., Any]
  needs: tuple[str, ...] = ()
  gives: tuple[str, ...] = ()
  takes: str = 'turn'  # links: level before
  leaves: str = 'turn'  # links: level after
  couples: bool = False  # losses: rows depend on each other through the loss
  unbounded: bool = False  # losses: no limit to how far a policy moves
  # Losses: LossInputs -> weights [N, T]
  weight: Callable[..., Any] | None = None
  check: Callable[['MethodSpec', Any], str] | None = None
  metrics: Callable[[Any], dict[str, Any]] | None = None
  step: str = ''
  tabular: bool = False

  @property
  def defaults(self) -> dict[str, Any]:
    """Hyper-parameters: the keyword-only arguments that have a default."""
    return dict(_defaults(self.f))

  @property
  def domains(self) -> dict[str, domain.Domain]:
    """Domains of its hyper-parameters; by the default's type if undeclared."""
    declared = domain.declared(self.f)
    domains = {
      name: declared.get(name) or domain.like(value)
      for name, value in self.defaults.items()
    }
    return {name: x for name, x in domains.items() if x is not None}

  @property
  def meanings(self) -> dict[str, str]:
    """Meanings of its hyper-parameters; '' where its author gave none."""
    said = domain.meanings(self.f)
    return {name: said.get(name, '') for name in self.defaults}


@functools.cache
def _defaults(f: Callable) -> dict[str, Any]:
  return {
    p.name: p.default
    for p in inspect.signature(f).parameters.values()
    if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
  }


_PIECES: dict[tuple[str, str], Component] = {}


def register(
  slot: str,
  name: str | None = None,
  *,
  needs: Iterable[str] = (),
  gives: Iterable[str] = (),
  takes: str = 'turn',
  leaves: str | None = None,
  couples: bool = False,
  unbounded: bool = False,
  weight: Callable | None = None,
  check: Callable[['MethodSpec', Any], str] | None = None,
  metrics: Callable[[Any], dict[str, Any]] | None = None,
  step: str = '',
  tabular: bool = False,
) -> Callable:
  """Decorates a function to register it under (slot, its name).

  Args:
    unbounded: of a policy loss: nothing limits its steps on tokens that
      another policy sampled
    weight: of a loss: LossInputs -> weights [N, T], which do not depend on
      outputs; default: those of the sampled tokens
    check: (spec, config) -> one sentence on what does not fit, or ''; asked
      once for each config that names the component
    metrics: Batch -> {name: (sum, weight)}, part of the metrics of a rollout
    step: of a signal: the field that is a reward of every turn [B, K]
    tabular: of a signal: it reads only what tables provide
  """

  def put(f):
    key = (slot, name or f.__name__)
    domain.OneOf(*SLOTS).check('slot', slot)
    if key in _PIECES and _PIECES[key].f.__module__ != f.__module__:
      raise ValueError(
        f'{slot} {key[1]!r} is already registered by'
        f' {_PIECES[key].f.__module__}; choose another name'
      )
    _PIECES[key] = Component(
      slot=slot,
      name=key[1],
      f=f,
      needs=tuple(needs),
      gives=tuple(gives),
      takes=takes,
      leaves=leaves or takes,
      couples=couples,
      unbounded=unbounded,
      weight=weight,
      check=check,
      metrics=metrics,
      step=step,
      tabular=tabular,
    )
    return f

  return put


def get(slot: str, name: str, field: str = '') -> Component:
  """Finds the component of (slot, name); ValueError lists the choices.

  A 'module:function' need not be registered; its hyper-parameters keep their
  defaults.
  """
  piece = _PIECES.get((slot, name))
  if piece is None and ':' in name:
    return _of_object(slot, name, field)
  if piece is None:
    where = f'{field} must be a registered {slot}' if field else slot
    got = f', got {name!r}' if field else f' {name!r} is not registered'
    raise ValueError(
      f'{where}{got}{domain.suggest(name, names(slot))}; choose from'
      f' {domain.listed(names(slot))}'
    )
  return piece


@functools.cache
def _of_object(slot: str, name: str, field: str) -> Component:
  """Makes a component of a function that is named as a Python object."""
  where = field or slot
  try:
    f = objects.load(name)
  except objects.MissingError as error:
    raise ValueError(f'{where}={error}') from error
  except Exception as error:  # whatever the user's module raises
    raise ValueError(
      f"{where} must be a registered {slot} or an importable 'module:function',"
      f' got {name!r} ({error})'
    ) from error
  if not callable(f):
    raise ValueError(
      f'{where} must name a function, got {name!r} of type {type(f).__name__}'
    )
  known = [x for x in _PIECES.values() if x.slot == slot and x.f is f]
  piece = known[0] if known else Component(slot, name, f)
  w = MethodSpec()  # without hyper-parameters of its own
  return piece._replace(
    name=name,
    f=lambda *args: f(*args),
    needs=tuple(_fill(piece, piece.needs, w, slot)),
    gives=tuple(_fill(piece, piece.gives, w, slot)),
  )


def names(slot: str) -> tuple[str, ...]:
  return tuple(sorted(n for s, n in _PIECES if s == slot))


def bind(slot: str, name: str, hp: Mapping[str, Any], field: str = ''):
  """Binds a component's function to its hyper-parameters.

  Raises ValueError for a hyper-parameter that the component does not have.
  """
  piece = get(slot, name, field)
  values = settings(piece, hp, field)

  def f(*args, **kwargs):
    return piece.f(*args, **values, **kwargs)

  return f


def settings(piece: Component, hp: Mapping[str, Any], field: str = ''):
  """Returns the component's defaults, overridden by hp."""
  defaults = piece.defaults
  for key in hp:
    if key not in defaults:
      raise ValueError(
        f'{field or piece.name}.{key} is not a hyper-parameter of'
        f' {piece.slot} {piece.name!r}{domain.suggest(key, defaults)}; it has'
        f' {tuple(defaults)}'
      )
  return defaults | dict(hp)


class MethodSpec(NamedTuple):
  """A method: components by slot, streams and hyper-parameters.

  A slot without a component is empty; configs fill all (configs/base.py).

  hp: {stream, term, source or slot: {component: {name: value}}}
  mix: edits of each source's trajectories, in order
  gives: provided by the environment, the roles and the rollout.
  """

  task: str = ''
  recall: str = ''
  prefix: str = ''
  rollout: str = ''
  collect: str = ''
  judge: tuple[str, ...] = ()
  reward: tuple[str, ...] = ()
  curate: tuple[str, ...] = ()
  signal: tuple[str, ...] = ()
  advantage: tuple[str, ...] = ()
  stream: Mapping[str, tuple[str, ...]] = {}
  post: tuple[str, ...] = ()
  loss: tuple[str, ...] = ()
  loss_aggregation: Mapping[str, str] = {}
  memory: tuple[str, ...] = ()
  minibatch: str = ''
  mix: Mapping[str, tuple[str, ...]] = {}
  hp: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}
  gives: tuple[str, ...] = ()

  def values(self, scope: str, piece: str) -> Mapping[str, Any]:
    return self.hp.get(scope, {}).get(piece, {})


def parts(w: MethodSpec) -> list[tuple[str, str, str]]:
  """Lists (scope, slot, name) of all named components, in loop order."""
  fields = w._asdict()
  single = ('task', 'recall', 'prefix', 'rollout', 'collect')
  out = [(slot, slot, fields[slot]) for slot in single]
  several = ('judge', 'reward', 'curate', 'signal')
  out += [(slot, slot, n) for slot in several for n in fields[slot]]
  for stream in w.advantage:
    out += [(stream, 'link', n) for n in w.stream.get(stream, ())]
  out += [('post', 'link', n) for n in w.post]
  out += [(n, 'loss', n) for n in w.loss]
  out += [
    (n, 'loss_aggregation', w.loss_aggregation.get(n, '')) for n in w.loss
  ]
  out += [('memory', 'memory', n) for n in w.memory]
  out += [('minibatch', 'minibatch', w.minibatch)]
  out += [(x, 'edit', n) for x, names in w.mix.items() for n in names]
  return [part for part in out if part[-1]]


def settings_of(
  w: MethodSpec, slot: str, name: str
) -> list[tuple[str, dict[str, Any]]]:
  """Returns (scope, hyper-parameters) of each place that names a component."""
  piece = get(slot, name)
  scopes = [x for x, of, named in parts(w) if (of, named) == (slot, name)]
  return [(x, settings(piece, w.values(x, name))) for x in scopes]


def check(w: MethodSpec, config: Any = None) -> None:
  """Raises ValueError, one sentence, if the components do not fit together.

  Args:
    config: whole config, for the components' own checks; None: skip them
  """
  for stream in w.advantage:
    if stream not in w.stream:
      raise ValueError(
        f'c.advantage names stream {stream!r}, which c.stream lacks; it has'
        f' {tuple(sorted(w.stream))}'
      )
  pieces = _pieces(w)
  for scope, piece in pieces:
    check_values(scope, piece, w.values(scope, piece.name))
  given = provided(w)
  for scope, piece in pieces:
    for need in _fill(piece, piece.needs, w, scope):
      if need not in given:
        raise ValueError(_missing(scope, piece, need, given))
  _check_order(w)
  levels = [check_levels(n, w.stream[n], 'turn') for n in w.advantage]
  check_levels('post', w.post, 'token' if 'token' in levels else 'turn')
  if config is None:
    return
  checks = dict.fromkeys(piece.check for _, piece in pieces if piece.check)
  for check_component in checks:
    if mistake := check_component(w, config):
      raise ValueError(mistake)


def metrics(w: MethodSpec) -> tuple[Callable[[Any], dict[str, Any]], ...]:
  """Returns what the components of a method measure of a batch."""
  own = (piece.metrics for _, piece in _pieces(w) if piece.metrics)
  return tuple(dict.fromkeys(own))


def provided(w: MethodSpec) -> set[str]:
  """Collects what components, environment, roles and rollout give."""
  given = (_fill(piece, piece.gives, w, scope) for scope, piece in _pieces(w))
  return {f'reading:{OWN}', *w.gives}.union(*given)


def _pieces(w: MethodSpec) -> list[tuple[str, Component]]:
  return [
    (scope, get(slot, n, _field(scope, slot))) for scope, slot, n in parts(w)
  ]


def check_values(scope: str, piece: Component, hp: Mapping[str, Any]) -> None:
  """Raises ValueError, one sentence, for a value outside its domain."""
  values = settings(piece, hp, _field(scope, piece.slot))
  for name, x in piece.domains.items():
    x.check(f'hp.{scope}.{piece.name}.{name}', values[name], values)


def defaults(w: MethodSpec) -> dict[str, dict[str, dict[str, Any]]]:
  """Lists all hyper-parameters: {scope: {component: {name: value}}}."""
  out: dict[str, dict[str, dict[str, Any]]] = {}
  for scope, slot, name in parts(w):
    field = _field(scope, slot)
    values = settings(get(slot, name, field), w.values(scope, name), field)
    if values:
      out.setdefault(scope, {})[name] = values
  return out


def needs(w: MethodSpec, scope: str, slot: str, name: str) -> tuple[str, ...]:
  """Returns the needs of a component, with its hyper-parameters filled in."""
  piece = get(slot, name, _field(scope, slot))
  return tuple(_fill(piece, piece.needs, w, scope))


def _field(scope: str, slot: str) -> str:
  if slot == 'link':
    return f'c.stream.{scope}' if scope != 'post' else 'c.post'
  names = {
    'loss_aggregation': f'c.loss_aggregation.{scope}',
    'rollout': 'c.rollout.kind',
    'edit': f'c.mix.{scope}.edits',
  }
  return names.get(slot, f'c.{slot}')


def _fill(piece: Component, wants: tuple[str, ...], w: MethodSpec, scope: str):
  hp = settings(piece, w.values(scope, piece.name), _field(scope, piece.slot))
  out: list[str] = []
  for want in wants:
    kind, several, names = want.partition('*')
    if several:  # one need for each name in that tuple
      kind = kind or 'column:'
      free = (OUTCOME,) if kind == 'term:' else ()
      out += [f'{kind}{name}' for name in hp[names] if name not in free]
    else:
      out.append(want.format(**hp))
  return out


def _missing(scope: str, piece: Component, need: str, given: set[str]) -> str:
  kind = need.split(':')[0]
  givers = [
    _add(p)
    for p in _PIECES.values()
    if p.slot != 'judge'  # which can fill any term
    and not (kind == 'column' and p.slot == 'rollout')  # which plays otherwise
    and any(need == g or ('{' in g and _matches(g, need)) for g in p.gives)
  ]
  fix = ' or '.join(givers[:3]) or _OTHERWISE.get(
    kind, 'add a component that gives it'
  )
  if kind == 'column' and not givers:
    columns = (g.partition(':')[2] for g in given if g.startswith('column:'))
    fix = (
      'choose an environment (c.env) with this column, or one of the columns'
      f' available: {tuple(sorted(columns))}'
    )
  return (
    f'{_field(scope, piece.slot)}: {piece.slot} {piece.name!r} needs {need},'
    f' which nothing in this config gives; {fix}'
  )


def _add(piece: Component) -> str:
  """Returns the advice that adds the component to a config."""
  if piece.slot == 'link':
    return f'add {piece.name!r} to a stream'
  if isinstance(MethodSpec._field_defaults.get(piece.slot, ()), str):
    return f'set {_field("", piece.slot)} to {piece.name!r}'
  return f'add {piece.name!r} to {_field("", piece.slot)}'


_OTHERWISE = {
  'env': 'choose an environment (c.env) that can do this',
  'term': (
    'choose an environment (c.env) that tells it, have a judge of c.judge fill'
    ' it, or name another term'
  ),
  'late': 'have a judge of c.judge fill this term',
  'role': 'add the role to c.role',
  'output': 'set c.role.policy.heads to 1 if it is the value',
  'reading': 'add it to c.reading, or choose a rollout that makes it',
  'service': 'name the service in c.service',
  'span': 'choose a rollout that marks this span',
  'arms': 'choose a task that gives several arms',
}


def _matches(pattern: str, need: str) -> bool:
  head, _, tail = pattern.partition('{')
  return need.startswith(head) and need.endswith(tail.partition('}')[2])


def _check_order(w: MethodSpec) -> None:
  """Checks that signals are written before they are read."""
  pieces = [get('signal', name) for name in w.signal]
  for i, piece in enumerate(pieces):
    wants = needs(w, 'signal', 'signal', piece.name)
    for later in pieces[i + 1 :]:
      for need in set(wants) & set(_fill(later, later.gives, w, 'signal')):
        raise ValueError(
          f'c.signal: {piece.name!r} needs {need}, which {later.name!r} gives'
          f' after it; put {later.name!r} before {piece.name!r}'
        )


def check_levels(stream: str, chain: tuple[str, ...], level: str) -> str:
  """Returns the level after the chain; ValueError for a misplaced link."""
  for name in chain:
    piece = get('link', name)
    if level == 'token' and piece.takes == 'turn':
      raise ValueError(
        f'{_field(stream, "link")}: link {name!r} works on turns and must come'
        f' before the link that moves credit to tokens'
      )
    if level == 'turn' and piece.takes == 'token':
      raise ValueError(
        f'{_field(stream, "link")}: link {name!r} works on tokens and must come'
        ' after a link that moves credit to tokens'
      )
    level = level if piece.leaves == 'any' else piece.leaves
  return level
