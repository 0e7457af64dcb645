"""Checkpoints: saves and restores states, and detects damaged ones.

    <folder>/<step>/state, meta, leaves   written by orbax
    <folder>/<step>/manifest.json         the step; size and hash of its files
    <folder>/saving                       the step being written, while it is

Written through orbax's first interface. Its v1 reads these files (a test does);
it is not what writes them while its own names still change.

A step counts as saved once its manifest stands and names it. A step without
one that `saving` names was cut short, and is removed; any other fault is
damage, and what is damaged is kept under another name.
"""

import contextlib
import functools
import json
import os
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from jax.experimental import multihost_utils

from agentrl.runtime import leaves, storage

_NONE, _UNREADABLE = -1, -2  # what process 0 tells the others beside a step
_CUT_SHORT = 'its save was cut short'
# orbax measures deadlines by the wall clock, which a suspended machine or a
# clock set anew moves by any amount: as good as none for the write, and folders
# are made without a wait for them.
_ASYNC = ocp.options.AsyncOptions(
  timeout_secs=10**9, create_directories_asynchronously=False
)
_LOOKS, _PAUSE = 5, 0.1  # seconds, after a folder was deleted under a save
_FAILURES = (OSError, ValueError, RuntimeError)  # of orbax, where it writes


class Checkpoints:
  """The newest `keep` states of one run, in a local folder or a bucket.

  Saving returns when the state is copied to the host, so its buffers may be
  donated next; orbax writes it in the background. Process 0 hashes and removes
  there too; every process must call each method.
  """

  def __init__(
    self,
    folder: str | os.PathLike,
    *,
    keep: int = 2,
    check: Callable[[], None] = lambda: None,
  ):
    """Takes check: raises where the folder is not this process's to write."""
    if keep < 1:
      raise ValueError(f'keep={keep} leaves no checkpoint; keep at least 1')
    self._folder = storage.path(storage.absolute(folder))
    self._keep, self._check = keep, check
    self._spoiled: dict[int, str] = {}
    self._copy: dict[str, jax.Array] = {}
    self._thread: threading.Thread | None = None
    self._error: Exception | None = None
    self._writes: Sequence = ()  # orbax's futures of the last save

  @functools.cached_property
  def _orbax(self) -> ocp.AsyncCheckpointer:
    options = ocp.CompositeOptions(async_options=_ASYNC)
    handler = ocp.CompositeCheckpointHandler(composite_options=options)
    begin = handler.async_save

    async def async_save(*args, **kwargs):
      self._writes = await begin(*args, **kwargs) or ()
      return self._writes

    handler.async_save = async_save  # by instance: orbax looks at its class
    return ocp.AsyncCheckpointer(handler, async_options=_ASYNC)

  def save(self, step: int, state: Any, meta: dict[str, Any]) -> None:
    """Writes `state` (a pytree of jax arrays, typed keys too) and `meta`.

    Waits for the save before, and raises what kept that from being written.

    Args:
      step: larger than every step saved before.
      state: arrays only; a Python or NumPy number belongs in `meta`.
      meta: what survives JSON unchanged (counters, names, cursors).

    Raises:
      ValueError: step, leaf or meta that cannot be saved, named.
      OSError: this state or the one before could not be written.
    """
    _check_meta(meta)
    arrays = leaves.named(state)
    self.wait()
    if jax.process_index() == 0:
      self._clear_the_way(step)
    args = ocp.args.Composite(
      state=ocp.args.StandardSave(self._snapshot(leaves.storable(arrays))),
      meta=ocp.args.JsonSave({'meta': meta}),
      leaves=ocp.args.JsonSave(
        {'leaves': [leaves.describe(path, x) for path, x in arrays.items()]}
      ),
    )
    multihost_utils.sync_global_devices('agentrl_checkpoint_start')
    self._write(step, args)
    self._thread = threading.Thread(
      target=self._finish, args=(step,), name='checkpoint'
    )
    self._thread.start()

  def wait(self) -> None:
    """Returns when the last state is sealed. Raises OSError if it is not."""
    if self._thread is not None:
      self._thread.join()
      self._thread = None
    if self._error is not None:
      error, self._error = self._error, None
      self._check()  # a folder that is gone is the reason, not the file
      raise error

  def latest(self, abstract_state: Any) -> tuple[int, Any, dict] | None:
    """Restores the newest whole checkpoint, bit for bit; None without any.

    Args:
      abstract_state: the tree of ShapeDtypeStructs (or arrays) to fill; each
        leaf's sharding says where it goes, on this mesh or another one.

    Raises:
      ValueError: checkpoints exist and none is whole, or the newest is of
        another model.
    """
    self.wait()
    multihost_utils.sync_global_devices('agentrl_checkpoint_latest')
    step, complaint = _NONE, ''
    if jax.process_index() == 0:
      step, complaint = self._search()
    step = int(multihost_utils.broadcast_one_to_all(np.int32(step)))
    if step == _UNREADABLE:
      raise ValueError(complaint or f'{self._folder}: see process 0')
    if step == _NONE:
      return None
    return step, *self._restore(step, abstract_state)

  def close(self) -> None:
    """Waits for the last save and frees what orbax holds."""
    try:
      self.wait()
    finally:
      self._copy = {}
      if '_orbax' in vars(self):
        self._orbax.close()
        del self._orbax

  def _snapshot(self, arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Copies arrays that may be donated while the host has a view of them.

    Accelerators: orbax copies to the host before it returns. On CPUs it does
    not, and an update that donates what is viewed copies it all, to memory new
    from the system. One copy whose memory is used again takes 1/20 of that.
    """
    platforms = {d.platform for x in arrays.values() for d in x.devices()}
    if platforms != {'cpu'}:
      return arrays
    there = {path: (x.shape, x.dtype, x.sharding) for path, x in arrays.items()}
    held = {p: (x.shape, x.dtype, x.sharding) for p, x in self._copy.items()}
    old = self._copy if there == held else arrays
    donate = (0,) if old is self._copy else ()
    shardings = {path: x.sharding for path, x in arrays.items()}
    copy = jax.jit(
      _copied,
      donate_argnums=donate,
      keep_unused=True,
      out_shardings=shardings,
    )
    self._copy = jax.block_until_ready(copy(old, arrays))
    return self._copy

  def _write(self, step: int, args: ocp.args.Composite) -> None:
    """Raises OSError for whatever keeps the state from being written."""
    try:
      self._orbax.save(self._folder / str(step), args=args)
    except _FAILURES as error:
      self._drain(step)
      self._check()
      raise _refused(error, self._folder, step) from error

  def _finish(self, step: int) -> None:
    """Waits for orbax's commit, then seals; in the background."""
    before = sys.unraisablehook
    sys.unraisablehook = _quiet(before)
    try:
      try:
        self._orbax.wait_until_finished()
      except _FAILURES as error:
        self._drain(step)
        raise _refused(error, self._folder, step) from error
      if jax.process_index() == 0:
        self._check()
        self._seal(step)
        self._remove_old()
    except Exception as error:
      self._error = error
    else:
      sys.unraisablehook = before

  def _drain(self, step: int) -> None:
    """Waits for what orbax writes on after its first error, and clears it.

    It raises each of the others when it is waited for again, or closed; where
    the folder was deleted meanwhile, it has made some of it again.
    """
    for write in self._writes:
      with contextlib.suppress(*_FAILURES):
        write.result()
    while True:
      try:
        self._orbax.wait_until_finished()
        break
      except _FAILURES as error:
        logging.debug('step %d: %s', step, error)
    if storage.in_bucket(self._folder) or (self._folder / 'saving').exists():
      return
    for _ in range(_LOOKS):  # threads of tensorstore outlive its futures
      with contextlib.suppress(OSError):  # whatever else is there stays
        for torn in self._folder.glob(f'{step}.orbax-checkpoint-tmp*'):
          storage.remove(torn)
        self._folder.rmdir()
        self._folder.parent.rmdir()
      time.sleep(_PAUSE)

  def _steps(self) -> list[int]:
    if not self._folder.is_dir():
      return []
    names = [x for x in self._folder.iterdir() if _STEP.fullmatch(x.name)]
    return sorted(int(x.name) for x in names if x.is_dir())

  def _saving(self) -> int | None:
    """Returns the step whose save was cut short, or None."""
    mark = self._folder / 'saving'
    if not mark.is_file():  # a pipe would be waited for
      return None
    text = mark.read_bytes()
    if not re.fullmatch(rb'[0-9]{1,18}', text):
      logging.warning('%s names no step: %r; nothing is made of it', mark, text)
      return None
    return int(text)

  def _search(self) -> tuple[int, str]:
    """Returns the newest whole step, or a code and the complaint to raise."""
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
    text = '; '.join(f'step {s} ({why})' for s, why in faults.items())
    text = f'checkpoints in {self._folder} not readable: {text}; '
    if whole == _NONE and set(faults.values()) - {_CUT_SHORT}:
      return _UNREADABLE, text + (
        'none is left: restore one from a backup, or use a new --workdir to'
        ' start again'
      )
    if faults:
      used = 'there is none before it' if whole < 0 else f'step {whole} is used'
      logging.warning('%s', text + used)
    return whole, ''

  def _restore(self, step: int, abstract_state: Any) -> tuple[Any, dict]:
    place = self._folder / str(step)
    facts = self._orbax.restore(
      place,
      args=ocp.args.Composite(
        meta=ocp.args.JsonRestore(), leaves=ocp.args.JsonRestore()
      ),
    )
    saved = [
      leaves.Leaf(p, tuple(s), d, i) for p, s, d, i in facts.leaves['leaves']
    ]
    wanted = leaves.named(abstract_state)
    if difference := leaves.difference(saved, wanted):
      raise ValueError(
        f'checkpoint {place} is of another model: {difference}; use a new'
        f' --workdir or the config saved in {self._folder.parent}'
      )
    full = {p: x for p, x in wanted.items() if x.size}
    target = jax.tree.map(leaves.stored_as, full)
    state = ocp.args.Composite(state=ocp.args.StandardRestore(target))
    stored = self._orbax.restore(place, args=state).state
    impls = {leaf.path: leaf.impl for leaf in saved}
    filled = [
      leaves.fill(stored.get(p), x, impls[p]) for p, x in wanted.items()
    ]
    treedef = jax.tree.structure(abstract_state)
    return jax.tree.unflatten(treedef, filled), facts.meta['meta']

  def _clear_the_way(self, step: int) -> None:
    """Marks `step` as being saved and removes torn writes in its way."""
    self._check()
    self._folder.mkdir(exist_ok=True)
    saving = self._saving()
    faults: dict[int, str] = {}
    for s in self._steps():
      if s < step:
        continue
      fault = _fault(self._folder / str(s), cut_short=s == saving)
      if fault is None:
        raise ValueError(
          f'step {step} cannot be saved: {self._folder} already holds step '
          f'{s}; resume from it or use a new --workdir'
        )
      faults[s] = fault
    storage.write(self._folder / 'saving', str(step))
    for torn in self._folder.glob('*.orbax-checkpoint-tmp*'):
      if torn.is_dir():
        storage.remove(torn)
    for s, fault in faults.items():
      self._put_away(s, fault)
    here = self._folder / str(step)
    if here.exists():
      storage.set_aside(here, 'is a file where a checkpoint is to be')

  def _seal(self, step: int) -> None:
    folder = self._folder / str(step)
    sizes = {
      name: [size, storage.digest(folder / name)]
      for name, size in storage.files(folder).items()
    }
    manifest = json.dumps({'step': step, 'files': sizes}, indent=1)
    storage.write(folder / 'manifest.json', manifest)
    storage.remove(self._folder / 'saving')

  def _remove_old(self) -> None:
    whole = [s for s in self._steps() if s not in self._spoiled]
    for step in whole[: -self._keep]:
      storage.remove(self._folder / str(step))
    for step, fault in [*self._spoiled.items()]:
      self._put_away(step, fault)

  def _put_away(self, step: int, fault: str) -> None:
    """Removes what a kill left; keeps what was damaged, under another name."""
    place = self._folder / str(step)
    if fault == _CUT_SHORT:
      storage.remove(place)
    else:
      storage.set_aside(place, f'is damaged: {fault}')
    self._spoiled.pop(step, None)


_STEP = re.compile('0|[1-9][0-9]{0,17}')


def _copied(old, arrays):
  """Copies arrays, into the memory of the old ones where that is donated."""
  del old
  return jax.tree.map(jax.numpy.copy, arrays)


def _quiet(hook: Callable) -> Callable:
  """Drops the tracebacks of the other writes when one fails."""

  def complain(error, coroutine=types.CoroutineType) -> None:
    late = 'Event loop is closed' in str(error.exc_value)
    if not late and not isinstance(error.object, coroutine):
      hook(error)

  return complain


def _refused(error: Exception, folder: storage.Path, step: int) -> OSError:
  """Finds the operating system's error in tensorstore's long text."""
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


def _fault(folder: storage.Path, *, cut_short: bool) -> str | None:
  """Returns a sentence on the files of one step, or None if they are whole."""
  place = folder / 'manifest.json'
  if not place.is_file():  # a pipe would be waited for
    return _CUT_SHORT if cut_short else 'no manifest.json'
  try:
    manifest = json.loads(place.read_bytes())
    step, files = manifest['step'], manifest['files']
    entries = [(name, int(n), str(x)) for name, (n, x) in files.items()]
  except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
    return 'manifest.json is damaged'
  if str(step) != folder.name:
    return f'its manifest.json is of step {step}'
  if not entries:
    return 'its manifest.json names no file'
  sizes = storage.files(folder)
  for name, size, digest in entries:
    if name not in sizes:
      return f'{name} is missing'
    if sizes[name] != size:
      return f'{name} has {sizes[name]} bytes, not {size}'
    if storage.digest(folder / name, digest) != digest:
      return f'the content of {name} has changed'
  return None


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
