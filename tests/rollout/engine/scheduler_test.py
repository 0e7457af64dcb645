"""Lines sit where what they want stands, and everybody gets to speak."""

import numpy as np
import pytest

from agentrl.rollout.engine import scheduler
from agentrl.rollout.engine.scheduler import Scheduler, Taken


class Cache:
  """What would stand on a device: (token, epoch of who read it), per slot."""

  def __init__(self, scheduler: Scheduler, slots: int):
    self.scheduler, self.epoch = scheduler, 0
    self.held = [[] for _ in range(slots)]

  def renew(self):
    self.scheduler.renew()
    self.epoch += 1

  def seat(self) -> list[Taken]:
    before = {name: x.slot for name, x in self.scheduler.sitting().items()}
    taken = self.scheduler.seat()
    for t in taken:
      if t.source is not None:
        self.held[t.slot] = list(self.held[t.source])
    sitting = self.scheduler.sitting()
    assert all(sitting[name].slot == slot for name, slot in before.items())
    for t in taken:  # they begin from these parameters' work alone
      kept = self.held[t.slot][: self.scheduler.lengths[t.slot]]
      assert all(epoch == self.epoch for _, epoch in kept)
    return taken

  def read(self, line, most: int):
    have = self.scheduler.lengths[line.slot]
    self.put(line.slot, have, self.scheduler.read(line, most))

  def write(self, line, new: list[int]):
    have = self.scheduler.lengths[line.slot]
    self.put(line.slot, have, [line.want[-1], *new[:-1]])
    self.scheduler.write(line, new)

  def put(self, slot: int, have: int, tokens: list[int]):
    read = [(token, self.epoch) for token in tokens]
    self.held[slot] = self.held[slot][:have] + read

  def check(self):
    sitting = self.scheduler.sitting()
    places = [line.slot for line in sitting.values()]
    assert len(set(places)) == len(places)
    for line in sitting.values():
      have = self.scheduler.lengths[line.slot]
      assert have <= len(line.want) - 1
      held = [token for token, _ in self.held[line.slot]]
      assert held[:have] == line.want[:have]


@pytest.mark.parametrize('seed', range(30))
def test_what_a_line_sits_on_is_what_it_wants(seed):
  """Random conversations: forks, drops, cuts and other parameters between."""
  rng = np.random.default_rng(seed)
  slots = int(rng.integers(1, 5))
  scheduler = Scheduler(slots, near=int(rng.integers(0, 4)))
  cache = Cache(scheduler, slots)
  said = {0: rng.integers(0, 3, 9).tolist()}  # of lines that wait for a world
  turns, born, rounds = dict.fromkeys(said, 3), 1, 0
  while turns:
    for name in [n for n in said if rng.random() < 0.7]:
      context = said.pop(name)
      if rng.random() < 0.5 and born < 12:  # another goes on from here
        said[born] = context[: rng.integers(1, len(context) + 1)]
        turns[born], born = 3, born + 1
      scheduler.submit(
        name, context + rng.integers(0, 3, 1 + rng.integers(4)).tolist()
      )
    if rng.random() < 0.2:
      cache.renew()
    cache.seat()
    cache.check()
    for name, line in scheduler.sitting().items():
      if scheduler.pending(line):
        cache.read(line, int(rng.integers(1, 6)))
      else:
        cache.write(line, rng.integers(0, 3, 1 + rng.integers(3)).tolist())
        if rng.random() < 0.5:
          wrote = len(line.want) - line.begun
          scheduler.end(line, int(rng.integers(1, wrote + 1)))
          said[name] = list(line.want)
          turns[name] -= 1
    cache.check()
    for name in [n for n in turns if not turns[n] or rng.random() < 0.01]:
      scheduler.cancel(name)
      turns.pop(name)
      said.pop(name, None)
    rounds += 1
    assert rounds < 2000, 'somebody never gets to speak'
  assert not scheduler.busy
  assert not scheduler.sitting()


def test_a_group_waits_for_the_one_who_reads():
  scheduler = Scheduler(3, near=2)
  prompt = list(range(10))
  for name in range(3):
    scheduler.submit(name, [*prompt, name])
  assert scheduler.seat() == [Taken(0, None, 0, False)]
  first = scheduler.sitting()[0]
  assert scheduler.read(first, 4) == prompt[:4]
  assert scheduler.seat() == []  # there is more to share still
  assert scheduler.read(first, 99) == prompt[4:]
  assert scheduler.pending(first) == 0
  assert scheduler.seat() == [Taken(1, 0, 10, False), Taken(2, 0, 10, False)]
  assert [scheduler.pending(x) for x in scheduler.sitting().values()] == [
    0,
    0,
    0,
  ]


def test_who_waits_for_a_world_and_has_read_least_goes_first():
  scheduler = Scheduler(2, near=0)
  for name, size in ((0, 8), (1, 4)):
    scheduler.submit(name, [name] * size)
    scheduler.seat()
    line = scheduler.sitting()[name]
    scheduler.read(line, 99)
    scheduler.write(line, [7])
    scheduler.end(line, 1)
  scheduler.submit(2, [2, 2])
  assert scheduler.seat() == [Taken(1, None, 0, True)]
  scheduler.submit(3, [0] * 5)  # a fork of 0, which waits
  assert scheduler.seat() == [Taken(0, None, 4, True)]
  scheduler.submit(0, [0] * 9)
  assert scheduler.seat() == []  # both speak
  scheduler.cancel(2)
  assert scheduler.seat() == [Taken(1, 0, 4, False)]


def test_nobody_begins_from_what_others_have_read():
  scheduler = Scheduler(2, near=0)
  scheduler.submit(0, [1, 2, 3])
  scheduler.seat()
  line = scheduler.sitting()[0]
  scheduler.read(line, 99)
  scheduler.renew()
  scheduler.submit(1, [1, 2, 3])
  assert scheduler.seat() == [Taken(1, None, 0, False)]
  scheduler.write(line, [4])
  scheduler.end(line, 1)
  scheduler.submit(0, [1, 2, 3, 4, 5])  # its own past it keeps
  line = scheduler.sitting()[0]
  assert (line.slot, scheduler.pending(line)) == (0, 1)


def test_a_line_speaks_one_message_at_a_time():
  scheduler = Scheduler(1, near=0)
  scheduler.submit(5, [1])
  with pytest.raises(ValueError, match='line 5 is still speaking; wait'):
    scheduler.submit(5, [1, 2])


def test_common():
  rng = np.random.default_rng(9)
  for _ in range(300):
    a, b = (rng.integers(0, 2, rng.integers(0, 12)).tolist() for _ in 'ab')
    want = next(
      (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
      min(len(a), len(b)),
    )
    assert scheduler.common(a, b) == want
