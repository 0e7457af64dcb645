"""The parts of a method, each of which can be taken back to GRPO's."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from flax import traverse_util
from ml_collections import ConfigDict

from agentrl import registry
from agentrl.configs import base

# What GRPO has in a slot.
PLAIN = {
  'task': 'fixed',
  'prefix': 'none',
  'collect': 'once',
  'curate': (),
  'signal': (),
  'memory': (),
  'reward': ('env',),
  'minibatch': 'minibatches',
}
EPISODE = {'episode': ('episode_return', 'center', 'scale')}
# Slots that are read from a batch that is given, and those that make batches.
SEEN = {'signal': 'update', 'memory': 'update', 'curate': 'update'}
SEEN |= {'minibatch': 'update', 'reward': 'reward'}
# What is seen in what later attempts read.
READ = {('memory', 'texts'), *(('recall', x) for x in registry.names('recall'))}
# Sections whose parts are told apart below, or that name no idea.
TOLD = (
  *(*PLAIN, 'method', 'data', 'advantage', 'stream', 'post', 'loss', 'coef'),
  *('loss_aggregation', 'select', 'hp', 'schedule', 'reading', 'service'),
  *('stage', 'stages', 'mix', 'judge', 'model'),
)


class Part(NamedTuple):
  """A part of a config that is taken out."""

  name: str
  # Where that is looked for: 'credit', 'update', 'reward', 'batch', or 'later',
  # a batch after an update.
  shows: str
  config: ConfigDict  # without it


def parts(c: ConfigDict, plain: ConfigDict) -> Iterator[Part]:
  """Yields every part in which a method differs from a plain one.

  Each stream, each link, each term of the loss, each slot, each setting, the
  hyper-parameters of each component.
  """
  yield from _credit(c)
  yield from _loss(c)
  for slot, usual in PLAIN.items():
    now = tuple(c[slot]) if isinstance(usual, tuple) else c[slot]
    if now != usual:
      changes = {slot: usual} | _not_by(c, slot)
      yield Part(slot, SEEN.get(slot, 'batch'), _changed(c, changes))
  for section in ('schedule', 'select'):
    if c[section].to_dict() != plain[section].to_dict():
      usual = plain[section].to_dict()
      yield Part(section, 'update', _changed(c, {section: usual}))
  yield from _settings(c, plain)
  yield from _hp(c)


def _not_by(c: ConfigDict, column: str) -> dict[str, Any]:
  """Takes a column out of what links compare by; a prefix gives one."""
  return {
    f'hp.{scope}.{name}.by': tuple(x for x in hp.by if x != column)
    for scope, components in c.hp.items()
    for name, hp in components.items()
    if column in hp.get('by', ())
  }


def _credit(c: ConfigDict) -> Iterator[Part]:
  streams = {name: tuple(c.stream[name]) for name in c.advantage}
  for name, chain in streams.items():
    if len(streams) > 1:
      left = tuple(x for x in streams if x != name)
      yield Part(f'stream {name}', 'credit', _changed(c, {'advantage': left}))
    for i, link in enumerate(chain):
      without = {f'stream.{name}': chain[:i] + chain[i + 1 :]}
      yield Part(f'{name}: {link}', 'credit', _changed(c, without))
    if c.coef[name] != 1:
      one = _changed(c, {f'coef.{name}': 1.0})
      yield Part(f'coef.{name}', 'credit', one)
  post = tuple(c.post)
  for i, link in enumerate(post):
    without = {'post': post[:i] + post[i + 1 :]}
    yield Part(f'post: {link}', 'credit', _changed(c, without))
  if streams != EPISODE or post:
    usual = {'advantage': tuple(EPISODE), 'stream': EPISODE, 'post': ()}
    yield Part('advantage', 'credit', _changed(c, usual))


def _loss(c: ConfigDict) -> Iterator[Part]:
  terms = tuple(c.loss)
  for term in terms if len(terms) > 1 else ():
    left = tuple(x for x in terms if x != term)
    yield Part(f'loss {term}', 'update', _changed(c, {'loss': left}))
  if len(terms) == 1 and terms != ('ppo',):
    yield Part('loss', 'update', _changed(c, {'loss': ('ppo',)}))
  for term, how in c.loss_aggregation.items():
    if how != 'trajectory_mean':
      usual = {f'loss_aggregation.{term}': 'trajectory_mean'}
      yield Part(f'loss_aggregation.{term}', 'update', _changed(c, usual))


def _settings(c: ConfigDict, plain: ConfigDict) -> Iterator[Part]:
  usual = traverse_util.flatten_dict(plain.to_dict(), sep='.')
  for path, value in traverse_util.flatten_dict(c.to_dict(), sep='.').items():
    section = path.partition('.')[0]
    if section in TOLD or path not in usual or value == usual[path]:
      continue
    sampled = section in ('rollout', 'compaction', 'edits', 'env')
    shows = 'batch' if sampled else 'update'
    shows = 'later' if section in ('staleness', 'recall') else shows
    yield Part(path, shows, _changed(c, {path: usual[path]}))


def _hp(c: ConfigDict) -> Iterator[Part]:
  w = base.wiring(c)._replace(hp={})
  for scope, components in registry.defaults(w).items():
    for component, usual in components.items():
      now = c.hp[scope][component].to_dict()
      if (scope, component) == ('minibatch', 'minibatches') or all(
        _plain(now[name]) == _plain(x) for name, x in usual.items()
      ):
        continue
      shows = 'credit' if scope in (*c.advantage, 'post') else 'update'
      if scope in ('task', 'prefix', 'collect', 'rollout', 'judge'):
        shows = 'batch'
      if scope == 'reward':
        shows = 'reward'
      if (scope, component) in READ:
        shows = 'later'
      path = f'hp.{scope}.{component}'
      yield Part(path, shows, _changed(c, {path: usual}))


def _plain(x: Any) -> Any:
  return tuple(x) if isinstance(x, list | tuple) else x


def _changed(c: ConfigDict, changes: dict[str, Any]) -> ConfigDict:
  """A copy with changes by path; sections of what is gone go too."""
  out = ConfigDict(copy.deepcopy(c.to_dict()))
  with out.unlocked():
    for path, value in changes.items():
      *sections, name = path.split('.')
      at = out
      for section in sections:
        at = at[section]
      at[name] = value
  return out


def pruned(c: ConfigDict) -> ConfigDict:
  """The config without sections of components that it no longer names.

  Raises:
    ValueError: its components do not fit together without the part.
  """
  w = base.wiring(c)
  every = registry.defaults(w)
  terms = (*w.advantage, *w.loss)
  with c.unlocked():
    for scope in list(c.hp):
      for component in list(c.hp[scope]):
        if component not in every.get(scope, {}):
          del c.hp[scope][component]
      if not c.hp[scope]:
        del c.hp[scope]
    named = {'coef': terms, 'stream': w.advantage}
    named |= {'loss_aggregation': w.loss, 'select': w.loss}
    for section, names in named.items():
      for name in set(c[section]) - set(names):
        del c[section][name]
    for name in set(c.schedule.get('coef', ())) - set(terms):
      del c.schedule.coef[name]
  return base.finish(c)
