"""experiments.train that kills itself at a moment, or whose clock jumps.

  python -m tests.integration.soak_child MOMENT COUNT CLOCK FLAGS...

MOMENT: where SIGKILL falls, the COUNT-th time the run comes there; '' never.
CLOCK: 'jumps' by weeks, forwards and backwards, all the time; or ''.
"""

import os
import signal
import sys
import threading
import time


def jumping(clock):
  """The clock, off by another week every forty times it is asked."""
  asked, weeks = 0, (0, 5, -9, 300, -2)

  def now():
    nonlocal asked
    asked += 1
    return clock() + weeks[asked // 40 % len(weeks)] * 7 * 24 * 3600

  return now


def die() -> None:
  os.kill(os.getpid(), signal.SIGKILL)
  time.sleep(60)  # not a line more of the run


def before(owner, name: str, count: int, last=lambda *args: None) -> None:
  """Dies instead of the count-th call, after `last` with its arguments."""
  whole, calls = vars(owner)[name], 0

  def call(*args, **kwargs):
    nonlocal calls
    calls += 1
    if calls == count:
      last(*args)
      die()
    return whole(*args, **kwargs)

  setattr(owner, name, call)


def soon(count: int):
  """A moment that nobody chose: some time after the call."""
  r, timer = time.monotonic_ns() % 400 / 1000, threading.Timer
  return lambda *args: timer(r * count, die).start()


def arm(moment: str, count: int) -> None:
  from agentrl import evaluate
  from agentrl.learner import update
  from agentrl.log import metrics, shards
  from agentrl.runtime import checkpoint, lock

  saves, writer = checkpoint.Checkpoints, metrics.MetricsWriter

  def half_a_row(self, *args):
    self._file.write(b'{"step": 3, "pha')

  def half_a_trajectory(self, *args):
    self._lines.write(b'{"phase": "rl", "st')

  def half_a_manifest(self, step):
    (self._folder / str(step) / 'manifest.json.part').write_text('{"st')

  def when_sealed(*args):
    for thread in threading.enumerate():
      if thread.name == 'checkpoint':
        thread.join()

  def after_the_call(self, *args, **kwargs):
    taken(self, *args, **kwargs)
    die()

  if moment == 'locked':
    taken = lock.Lock.__enter__
    lock.Lock.__enter__ = after_the_call
  elif moment == 'random':
    whole, at = writer.write, soon(1 + count)
    calls = []

    def write(self, *args, **kwargs):
      whole(self, *args, **kwargs)
      calls.append(1)
      if len(calls) == count:
        at()

    writer.write = write
  else:
    owner, name, last = {
      'resumed': (saves, 'latest', lambda *_: None),
      'row': (writer, 'write', lambda *_: None),
      'half a row': (writer, 'write', half_a_row),
      'half a trajectory': (shards.ShardWriter, 'write', half_a_trajectory),
      'stage border': (update, 'init_roles_from_policy', lambda *_: None),
      'evaluation': (evaluate, 'measure', when_sealed),
      'saving': (saves, '_write', lambda *_: None),
      'saved, not sealed': (saves, '_seal', half_a_manifest),
      'sealed': (saves, '_remove_old', lambda *_: None),
    }[moment]
    before(owner, name, count, last)


def main() -> None:
  moment, count, clock = sys.argv[1:4]
  del sys.argv[1:4]
  if clock == 'jumps':
    time.time = jumping(time.time)
  if moment:
    arm(moment, int(count))
  from agentrl import cli
  from agentrl.experiments import train

  cli.run(train.main, required=('config', 'workdir'))


if __name__ == '__main__':
  main()
