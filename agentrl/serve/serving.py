"""Runs and checkpoints as models of a server, whose weights are only read.

A model has an engine of its own: slots, cache and a copy of the weights. Those
that are adapters of one rank on one base share all of that, and requests of
all of them are decoded together. Nothing is written to the folder of a run.
"""

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.configs import base
from agentrl.configs import stages as stage_list
from agentrl.configs.config import to_dict
from agentrl.learner import algorithm
from agentrl.model import published
from agentrl.nn import lora, transformer
from agentrl.rollout import registered
from agentrl.rollout.engine.engine import (
  Completion,
  SamplingParams,
  Sizes,
)
from agentrl.rollout.engine.service import EngineService
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import config_file, pretrained, weights
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import fields
from agentrl.run.play import host_env, jit_env
from agentrl.runtime import publish
from agentrl.text import chat_format
from agentrl.text.tool_calls import FORMATS, format_of
from agentrl.types import PyTree

if TYPE_CHECKING:  # it has an extra of its own
  from agentrl.gateway.server import Gateway

CONTEXT, MESSAGE = 4096, 512  # tokens, of a checkpoint where nobody says


class LoadedModel(NamedTuple):
  """A model that can be served."""

  title: str
  shape: transformer.DecoderConfig
  params: PyTree
  step: int  # of the run; 0: none
  talk: chat_format.ChatFormat
  calls: str  # format of tool calls
  context: int
  message: int


class AdapterEngine(NamedTuple):
  """One adapter of an engine."""

  engine: EngineService
  adapter: int

  def submit(
    self, context: Sequence[int], how: SamplingParams
  ) -> Future[Completion]:
    """Requests a message after tokens; the future may be cancelled."""
    return self.engine.submit(context, how._replace(adapter=self.adapter))

  def update_weights(self, params: PyTree, version: int) -> None:
    """Sets the parameters of an engine of one model."""
    self.engine.update_weights(params, version)


def sources(words: Sequence[str]) -> dict[str, str]:
  """Maps names of models to folders, from 'name=folder' or 'folder'.

  Raises:
    ValueError: two have one name.
  """
  out: dict[str, str] = {}
  for word in words:
    name, equals, folder = word.partition('=')
    if not equals:
      name, folder = os.path.basename(os.path.abspath(word)), word
    if not name or not folder:
      raise ValueError(f'{word!r} names no folder; write FOLDER or NAME=FOLDER')
    if name in out:
      raise ValueError(
        f'{out[name]} and {folder} would both be served as {name!r}; write'
        ' NAME=FOLDER with names of their own'
      )
    out[name] = folder
  return out


def load(folder: str, context: int = 0, message: int = 0) -> LoadedModel:
  """Returns the newest policy of a run, or the model of a checkpoint's folder.

  Args:
    context, message: tokens; 0: as the run was trained

  Raises:
    ValueError: the folder is neither, or the context is longer than the
      positions of the model.
  """
  run = workdir_lib.is_run(folder)
  loaded = _of_run(folder) if run else _of_checkpoint(folder)
  loaded = loaded._replace(
    context=context or loaded.context, message=message or loaded.message
  )
  if loaded.message >= loaded.context:
    raise ValueError(
      f'--message must be less than --context={loaded.context}, got'
      f' {loaded.message}'
    )
  if 0 < loaded.shape.positions < loaded.context:
    raise ValueError(
      f'--context must be at most {loaded.shape.positions}, the positions of'
      f' {folder}, got {loaded.context}'
    )
  return loaded


def load_all(
  folders: Mapping[str, str], context: int = 0, message: int = 0
) -> dict[str, LoadedModel]:
  """Loads models by name; those on one base hold the same arrays of it.

  See `load`.
  """
  out: dict[str, LoadedModel] = {}
  for name, folder in folders.items():
    model = load(folder, context, message)
    for other in out.values():
      if _on_one_base(model, other):
        shared = jax.tree.map(
          _with_base, model.params, other.params, is_leaf=lora.is_adapted
        )
        model = model._replace(params=shared)
        break
    out[name] = model
  return out


def _on_one_base(a: LoadedModel, b: LoadedModel) -> bool:
  """Tells if they differ in what their adapters add, and in nothing else."""
  outlines = [
    (
      x.shape,
      x.talk.words.eot,
      jax.tree.structure(x.params),
      [y.shape for y in jax.tree.leaves(x.params)],
    )
    for x in (a, b)
  ]
  if outlines[0] != outlines[1]:
    return False
  leaves = [jax.tree.leaves(x.params, is_leaf=lora.is_adapted) for x in (a, b)]
  return any(map(lora.is_adapted, leaves[0])) and all(
    bool(jnp.array_equal(_base(x), _base(y)))
    for x, y in zip(*leaves, strict=True)
  )


def _base(x):
  return x.w if lora.is_adapted(x) else x


def _with_base(x, base):
  return x.replace(w=base.w) if lora.is_adapted(x) else base


def _of_run(run: str) -> LoadedModel:
  c = whole = workdir_lib.read_config(run)
  if plans := stage_list.plans(c):
    c = plans[-1].config
  c = fields.read(c)
  words, shape, chat = pretrained.language(c)
  kind = host_env if registered.kind_of(base.wiring(c)).on_host else jit_env
  sized: Any = kind.sized(c, words, chat)  # one of two types with a capacity
  step, state = weights.load(whole, shape, run)
  context = algorithm_lib.make_algorithm(c, shape).context
  calls = to_dict(c.env).get('calls', '')
  return LoadedModel(
    f'{run} at step {step}',
    shape,
    algorithm.full_params(context, state.params),
    step,
    chat_format.framed(chat) if chat else chat_format.bare(words),
    calls if calls in FORMATS else 'hermes',
    sized.capacity.cache,
    c.rollout.max_message_tokens,
  )


def _of_checkpoint(folder: str) -> LoadedModel:
  c = fields.read(config_file.load(f'grpo:checkpoint={folder}'))
  words, shape, chat = pretrained.language(c)
  pretrained.check_weights(c, shape)
  return LoadedModel(
    folder,
    shape,
    pretrained.weights(c, shape),
    0,
    chat_format.framed(chat) if chat else chat_format.bare(words),
    'hermes',
    min(CONTEXT, shape.positions or CONTEXT),
    MESSAGE,
  )


@contextlib.contextmanager
def opened(
  models: Mapping[str, LoadedModel],
  *,
  slots: int = 8,
  host: str = '127.0.0.1',
  port: int = 0,
  key: str | None = None,
  updates: str = '',
) -> Iterator['Gateway']:
  """Serves models by their names until the end of the context.

  Args:
    slots: requests of one model that are decoded together
    host, port, key: see `Gateway`
    updates: folder below which there may be new weights; '': nobody updates

  Raises:
    ValueError: there are several models and weights of one may be updated.
  """
  from agentrl.gateway.served import ServedModel
  from agentrl.gateway.server import Gateway

  if updates and len(models) > 1:
    raise ValueError(
      f'--updates={updates} brings the weights of one model, and'
      f' {", ".join(models)} are served; serve one'
    )
  with contextlib.ExitStack() as stack:
    engines = _engines(models, slots, stack)
    served = [
      ServedModel(
        name,
        engines[name],
        x.talk,
        format_of(x.calls),
        message=x.message,
        context=x.context,
      )
      for name, x in models.items()
    ]
    gateway = stack.enter_context(
      Gateway(
        served[0].generator,
        model=served[0].name,
        context=served[0].context,
        host=host,
        port=port,
        key=key,
        update=_update(models, engines, updates) if updates else None,
      )
    )
    for model in served:
      gateway.serve(model)
    yield gateway


def _update(
  models: Mapping[str, LoadedModel],
  engines: Mapping[str, AdapterEngine],
  folder: str,
) -> Callable[[str, int], None]:
  """Takes weights of the one model from below a folder."""
  ((name, model),) = models.items()
  root, newest = pathlib.Path(folder).resolve(), 0

  def update(path: str, version: int) -> None:
    nonlocal newest
    try:
      place = pathlib.Path(path).resolve()
    except RuntimeError as error:  # links that lead to each other
      raise ValueError(f'{path} cannot be read: {error}') from error
    if version < newest:
      raise ValueError(
        f'version must be {newest} or more, which is served, got {version}'
      )
    if not place.is_relative_to(root):
      raise ValueError(f'{path} is not below {root}, from which weights come')
    try:
      if publish.check(place) != version:
        raise ValueError(f'{path} is not version {version}')
      params = published.read(place, model.shape)
    except OSError as error:
      raise ValueError(f'{path:.200} cannot be read: {error}') from error
    engines[name].update_weights(params, version)
    newest = version

  return update


def _engines(
  models: Mapping[str, LoadedModel], slots: int, stack: contextlib.ExitStack
) -> dict[str, AdapterEngine]:
  """Returns the engine of each model, closed with the stack."""
  together: dict[int, list[str]] = {}
  for name, model in models.items():
    together.setdefault(id(model.params['embed']), []).append(name)
  out = {}
  for names in together.values():
    first, context = models[names[0]], max(models[x].context for x in names)
    engine = EngineService(first.shape, Sizes(slots, context), first.talk)
    stack.enter_context(engine)
    if len(names) > 1:
      params, steps = zip(
        *((models[x].params, models[x].step) for x in names), strict=True
      )
      engine.update_weights(params, steps)
    else:
      engine.update_weights(first.params, first.step)
    out |= {name: AdapterEngine(engine, i) for i, name in enumerate(names)}
  return out


def invitation(gateway: 'Gateway', models: Mapping[str, LoadedModel]) -> str:
  """Writes what to tell the one who started the server."""
  names = ', '.join(f'{x} ({m.title})' for x, m in models.items())
  key = f" -H 'Authorization: Bearer {gateway.key}'" if gateway.key else ''
  body = (
    f'{{"model": "{next(iter(models))}", "messages":'
    ' [{"role": "user", "content": "Hello"}]}'
  )
  address = f'{gateway.address}/v1'
  return (
    f'{names} at {address} until ^C, key {gateway.key or "not asked for"}\n'
    f"curl {address}/chat/completions{key} -H 'Content-Type:"
    f" application/json' -d '{body}'"
  )
