"""Lasting state: checkpoints that are whole, or known not to be.

    <folder>/<step>/state, meta, leaves   written by orbax
    <folder>/<step>/manifest.json         the step; size and SHA-256 of them
    <folder>/saving                       the step being written, while it is

A step counts as saved once its manifest stands and names it. A step without
one that `saving` names was cut short, and is removed; any other fault is
damage, and what is damaged is kept under another name.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from jax.experimental import multihost_utils

from agentrl import storage

_NONE, _UNREADABLE = -1, -2  # what process 0 tells the others beside a step
_CUT_SHORT = 'its save was cut short'


class Leaf(NamedTuple):
  """What a checkpoint says of one array; `impl` is '' unless it is a key."""

  path: str
  shape: tuple[int, ...]
  dtype: str
  impl: str

  def __str__(self) -> str:
    return f'{self.dtype}{list(self.shape)}'


class Checkpoints:
  """The newest `keep` states of one run, in a local or mounted folder.

  Saving returns when the state is on disk, so its buffers may be donated
  next. Process 0 hashes and removes; every process must call each method.
  """

  def __init__(
    self,
    folder: str | os.PathLike,
    *,
    keep: int = 2,
    check: Callable[[], None] = lambda: None,
  ):
    """check: raises where the folder is not this process's to write in."""
    if keep < 1:
      raise ValueError(f'keep={keep} leaves no checkpoint; keep at least 1')
    if '://' in os.fspath(folder):
      raise ValueError(
        f'checkpoints cannot be written to {folder}; mount the bucket and '
        'give the path of the mounted folder'
      )
    self._folder = pathlib.Path(folder).absolute()
    self._keep, self._check = keep, check
    self._spoiled: dict[int, str] = {}
    self._made: ocp.CheckpointManager | None = None

  def save(self, step: int, state: Any, meta: dict[str, Any]) -> None:
    """Writes `state` (a pytree of jax arrays, typed keys too) and `meta`.

    Args:
      step: larger than every step saved before.
      state: arrays only; a Python or NumPy number belongs in `meta`.
      meta: what survives JSON unchanged (counters, names, cursors).

    Raises:
      ValueError: step, leaf or meta that cannot be saved, named.
    """
    _check_meta(meta)
    arrays = _named(state)
    leaves = [_describe(path, x) for path, x in arrays.items()]
    if jax.process_index() == 0:
      self._clear_the_way(step)
    args = ocp.args.Composite(
      state=ocp.args.StandardSave(_storable(arrays)),
      meta=ocp.args.JsonSave({'meta': meta}),
      leaves=ocp.args.JsonSave({'leaves': leaves}),
    )
    multihost_utils.sync_global_devices('agentrl_checkpoint_start')
    self._manager().reload()  # what was cleared away must not be remembered
    self._write(step, args)
    if jax.process_index() == 0:
      self._check()
      self._seal(step)
      self._remove_old()
    multihost_utils.sync_global_devices('agentrl_checkpoint_end')

  def latest(self, abstract_state: Any) -> tuple[int, Any, dict] | None:
    """Restores the newest whole checkpoint, bit for bit; None without any.

    Args:
      abstract_state: the tree of ShapeDtypeStructs (or arrays) to fill; each
        leaf's sharding says where it goes, on this mesh or another one.

    Raises:
      ValueError: checkpoints exist and none is whole, or the newest is of
        another model.
    """
    step, complaint = _NONE, ''
    if jax.process_index() == 0:
      step, complaint = self._search()
    step = int(multihost_utils.broadcast_one_to_all(np.int32(step)))
    if step == _UNREADABLE:
      raise ValueError(complaint or f'{self._folder}: see process 0')
    if step == _NONE:
      return None
    state, meta = self._restore(step, abstract_state)
    return step, state, meta

  def close(self) -> None:
    """Frees what orbax holds; the folder is complete before that too."""
    if self._made is not None:
      self._made.close()
      self._made = None

  def _write(self, step: int, args: ocp.args.Composite) -> None:
    """Raises OSError for whatever keeps the state from being written."""
    before = sys.unraisablehook
    sys.unraisablehook = _quiet(before)
    try:
      saved = self._manager().save(step, args=args, force=True)
    except (OSError, ValueError, RuntimeError) as error:
      raise _refused(error, self._folder, step) from error
    sys.unraisablehook = before
    if not saved:
      raise RuntimeError(f'orbax declined to save step {step}')

  def _manager(self) -> ocp.CheckpointManager:
    # Made at first use: looking for checkpoints must not create a folder.
    # No max_to_keep: orbax would remove old steps before ours is sealed.
    if self._made is None:
      options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
      self._made = ocp.CheckpointManager(self._folder, options=options)
    return self._made

  def _steps(self) -> list[int]:
    if not self._folder.is_dir():
      return []
    return sorted(int(p.name) for p in self._folder.iterdir() if _is_step(p))

  def _saving(self) -> int | None:
    """The step whose save was cut short, or None."""
    mark = self._folder / 'saving'
    if not mark.is_file():
      return None
    text = mark.read_bytes()
    if not re.fullmatch(rb'[0-9]{1,18}', text):
      logging.warning('%s names no step: %r; nothing is made of it', mark, text)
      return None
    return int(text)

  def _search(self) -> tuple[int, str]:
    """The newest whole step, or a code and the complaint to raise."""
    if self._folder.exists() and not self._folder.is_dir():
      return _UNREADABLE, (
        f'{self._folder} is a file and not a folder of checkpoints; put the'
        ' folder back, or use a new --workdir to start again'
      )
    steps, saving, faults = self._steps(), self._saving(), {}
    if saving is not None and saving not in steps:
      faults[saving] = _CUT_SHORT
    whole = _NONE
    for step in reversed(steps):
      fault = _fault(self._folder / str(step), cut_short=step == saving)
      if fault is None:
        whole = step
        break
      faults[step] = fault
    self._spoiled = {s: faults[s] for s in steps if s in faults}
    if whole == _NONE and set(faults.values()) - {_CUT_SHORT}:
      fix = 'restore one from a backup, or use a new --workdir to start again'
      return _UNREADABLE, self._told(faults, f'none is left: {fix}')
    if faults:
      told = 'there is none before it' if whole < 0 else f'step {whole} is used'
      logging.warning('%s', self._told(faults, told))
    return whole, ''

  def _told(self, faults: dict[int, str], outcome: str) -> str:
    told = '; '.join(f'step {s} ({why})' for s, why in faults.items())
    return f'checkpoints in {self._folder} not readable: {told}; {outcome}'

  def _restore(self, step: int, abstract_state: Any) -> tuple[Any, dict]:
    json_items = ocp.args.Composite(
      meta=ocp.args.JsonRestore(), leaves=ocp.args.JsonRestore()
    )
    told = self._manager().restore(step, args=json_items)
    saved = [Leaf(p, tuple(s), d, i) for p, s, d, i in told.leaves['leaves']]
    wanted = _named(abstract_state)
    difference = _difference(saved, wanted)
    if difference:
      raise ValueError(
        f'checkpoint {self._folder / str(step)} is of another model: '
        f'{difference}; use a new --workdir or the config saved in '
        f'{self._folder.parent}'
      )
    target = {p: _stored_as(x) for p, x in wanted.items() if x.size}
    state_item = ocp.args.Composite(state=ocp.args.StandardRestore(target))
    stored = self._manager().restore(step, args=state_item).state
    impls = {leaf.path: leaf.impl for leaf in saved}
    filled = [_fill(stored.get(p), x, impls[p]) for p, x in wanted.items()]
    treedef = jax.tree.structure(abstract_state)
    return jax.tree.unflatten(treedef, filled), told.meta['meta']

  def _clear_the_way(self, step: int) -> None:
    """Marks `step` as being saved and removes torn writes in its way."""
    self._check()
    self._folder.mkdir(exist_ok=True)
    saving, later = self._saving(), [s for s in self._steps() if s >= step]
    faults = {
      s: _fault(self._folder / str(s), cut_short=s == saving) for s in later
    }
    for s, fault in faults.items():
      if fault is None:
        raise ValueError(
          f'step {step} cannot be saved: {self._folder} already holds step '
          f'{s}; resume from it or use a new --workdir'
        )
    storage.write(self._folder / 'saving', str(step))
    for torn in self._folder.glob('*.orbax-checkpoint-tmp*'):
      if torn.is_dir():
        shutil.rmtree(torn)
    for s, fault in faults.items():
      self._put_away(s, fault)
    here = self._folder / str(step)
    if here.exists():
      storage.set_aside(here, 'is a file where a checkpoint is to be')

  def _seal(self, step: int) -> None:
    folder = self._folder / str(step)
    files = sorted(p for p in folder.rglob('*') if p.is_file())
    sizes = {
      str(p.relative_to(folder)): [p.stat().st_size, _sha256(p)] for p in files
    }
    manifest = {'step': step, 'files': sizes}
    storage.write(folder / 'manifest.json', json.dumps(manifest, indent=1))
    (self._folder / 'saving').unlink()

  def _remove_old(self) -> None:
    whole = [s for s in self._steps() if s not in self._spoiled]
    for step in whole[: -self._keep]:
      shutil.rmtree(self._folder / str(step))
    for step, fault in [*self._spoiled.items()]:
      self._put_away(step, fault)

  def _put_away(self, step: int, fault: str) -> None:
    """Removes what a kill left; keeps what was damaged, under another name."""
    path = self._folder / str(step)
    if fault == _CUT_SHORT:
      shutil.rmtree(path)
    else:
      storage.set_aside(path, f'is damaged: {fault}')
    self._spoiled.pop(step, None)


def _is_step(path: pathlib.Path) -> bool:
  named = re.fullmatch('0|[1-9][0-9]{0,17}', path.name)
  return bool(named) and path.is_dir()


def _quiet(hook: Callable) -> Callable:
  """Without what the writes beside a failed one say, each in a traceback."""

  def complain(error, coroutine=types.CoroutineType) -> None:
    late = 'Event loop is closed' in str(error.exc_value)
    if not late and not isinstance(error.object, coroutine):
      hook(error)

  return complain


def _refused(error: Exception, folder: pathlib.Path, step: int) -> OSError:
  """The operating system's error, which tensorstore has in a long text."""
  text = f'{error} {error.__cause__}'
  code = re.search(r"os_error_code='(\d+)'", text)
  if isinstance(error, OSError) and error.errno is not None:
    number = error.errno
  elif code:
    number = int(code.group(1))
  else:
    return OSError(
      f'step {step} cannot be saved in {folder}: {text.splitlines()[0][:300]};'
      ' what was saved before it stands, and the same command goes on from it'
    )
  return OSError(number, os.strerror(number), str(folder / str(step)))


def _sha256(path: pathlib.Path) -> str:
  with path.open('rb') as f:
    return hashlib.file_digest(f, 'sha256').hexdigest()


def _fault(folder: pathlib.Path, *, cut_short: bool) -> str | None:
  """What is wrong with the files of one step, or None."""
  path = folder / 'manifest.json'
  if not path.is_file():
    return _CUT_SHORT if cut_short else 'no manifest.json'
  try:
    step, entries = _entries(json.loads(path.read_bytes()))
  except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
    return 'manifest.json is damaged'
  if step is not None and str(step) != folder.name:
    return f'its manifest.json is of step {step}'
  if not entries:
    return 'its manifest.json names no file'
  for name, size, sha in entries:
    file = folder / name
    if not file.is_file():
      return f'{name} is missing'
    if file.stat().st_size != size:
      return f'{name} has {file.stat().st_size} bytes, not {size}'
    if _sha256(file) != sha:
      return f'the content of {name} has changed'
  return None


def _entries(manifest: Any) -> tuple[int | None, list[tuple[str, int, str]]]:
  """(step, files) of a manifest; those of older runs name files alone."""
  step, files = None, manifest
  if {'step', 'files'} & manifest.keys():
    step, files = manifest['step'], manifest['files']
  return step, [(name, int(n), sha) for name, (n, sha) in files.items()]


def _check_meta(meta: dict[str, Any]) -> None:
  try:
    back = json.loads(json.dumps(meta))
  except TypeError as e:
    raise ValueError(f'meta cannot be saved as JSON: {e}') from e
  for name, value in meta.items():
    if name not in back or back[name] != value:
      raise ValueError(
        f'meta[{name!r}]={value!r} does not survive JSON; use text keys, '
        'lists and plain finite numbers'
      )


def _named(tree: Any) -> dict[str, Any]:
  """The leaves of a tree by path ('params/dense/w'), in tree order."""
  named = {}
  for path, leaf in jax.tree.leaves_with_path(tree):
    name = jax.tree_util.keystr(path, simple=True, separator='/')
    if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
      raise ValueError(
        f'state leaf {name!r} is a {type(leaf).__name__}, not a jax array; '
        'move it into meta or make it one with jnp.asarray'
      )
    if leaf.sharding is None:
      raise ValueError(
        f'state leaf {name!r} has no sharding; give its ShapeDtypeStruct one'
      )
    if name in named:
      raise ValueError(f'two state leaves are called {name!r}; rename one')
    named[name] = leaf
  return named


def _is_key(x: jax.Array | jax.ShapeDtypeStruct) -> bool:
  return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _describe(path: str, x: jax.Array) -> Leaf:
  impl = str(jax.random.key_impl(x)) if _is_key(x) else ''
  return Leaf(path, x.shape, str(x.dtype), impl)


def _storable(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
  """Keys as their uint32 data, and without empty arrays: orbax has neither."""
  return {
    path: jax.random.key_data(x) if _is_key(x) else x
    for path, x in arrays.items()
    if x.size
  }


def _stored_as(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
  """The abstract form of what `_storable` wrote for a leaf like `x`."""
  plain = jax.ShapeDtypeStruct(x.shape, x.dtype)
  kept = jax.eval_shape(jax.random.key_data, plain) if _is_key(x) else plain
  return jax.ShapeDtypeStruct(kept.shape, kept.dtype, sharding=x.sharding)


def _fill(
  stored: jax.Array | None, x: jax.ShapeDtypeStruct, impl: str
) -> jax.Array:
  if impl:
    if stored is None:
      stored = jax.numpy.zeros(_stored_as(x).shape, 'uint32')
    stored = jax.random.wrap_key_data(stored, impl=impl)
  elif stored is None:
    stored = jax.numpy.zeros(x.shape, x.dtype)
  return jax.device_put(stored, x.sharding)


def _difference(saved: list[Leaf], wanted: dict[str, Any]) -> str | None:
  """The first leaf that is not the same on both sides, in words."""
  there = {leaf.path: leaf for leaf in saved}
  for path, x in wanted.items():
    here = f'{x.dtype}{list(x.shape)}'
    if path not in there:
      return f'leaf {path!r} is missing there and {here} here'
    if str(there[path]) != here:
      return f'leaf {path!r} is {there[path]} there and {here} here'
  for path, leaf in there.items():
    if path not in wanted:
      return f'leaf {path!r} is {leaf} there and missing here'
  return None
