"""Slots hold what their sequences want, and every request is served."""

import numpy as np
import pytest

from agentrl.rollout.engine import scheduler
from agentrl.rollout.engine.scheduler import Scheduler, SlotAssignment


class Cache:
  """What would stand on a device: (token, epoch of who read it), per slot."""

  def __init__(self, scheduler: Scheduler, slots: int):
    self.scheduler, self.epoch, self.oldest = scheduler, 0, 0
    self.held = [[] for _ in range(slots)]

  def renew(self):
    self.scheduler.renew()
    self.epoch += 1

  def drop(self):
    queued = self.scheduler.scheduled()
    self.scheduler.drop()
    self.epoch += 1
    self.oldest = self.epoch  # whatever is older may not be read any more
    assert not self.scheduler.scheduled()
    assert self.scheduler._queue[: len(queued)] == list(queued)

  def assign_slots(self) -> list[SlotAssignment]:
    before = {name: x.slot for name, x in self.scheduler.scheduled().items()}
    taken = self.scheduler.assign_slots()
    for t in taken:
      if t.source is not None:
        self.held[t.slot] = list(self.held[t.source])
    scheduled = self.scheduler.scheduled()
    assert all(scheduled[name].slot == slot for name, slot in before.items())
    by_slot = {x.slot: x for x in scheduled.values()}
    for t in taken:  # they begin from these parameters' work alone
      shared = self.held[t.slot][: self.scheduler.lengths[t.slot]]
      own = self.epoch, by_slot[t.slot].adapter
      assert all(by == own for _, by in shared)
    return taken

  def read(self, request, most: int):
    have = self.scheduler.lengths[request.slot]
    self.put(request, have, self.scheduler.read(request, most))

  def write(self, request, new: list[int]):
    have = self.scheduler.lengths[request.slot]
    self.put(request, have, [request.want[-1], *new[:-1]])
    self.scheduler.write(request, new)

  def put(self, request, have: int, tokens: list[int]):
    by = self.epoch, request.adapter
    held = self.held[request.slot]
    self.held[request.slot] = held[:have] + [(token, by) for token in tokens]

  def check(self):
    scheduled = self.scheduler.scheduled()
    places = [request.slot for request in scheduled.values()]
    assert len(set(places)) == len(places)
    for request in scheduled.values():
      have = self.scheduler.lengths[request.slot]
      assert have <= len(request.want) - 1
      held = self.held[request.slot][:have]
      assert [token for token, _ in held] == request.want[:have]
      assert all(adapter == request.adapter for _, (_, adapter) in held)
      assert all(epoch >= self.oldest for _, (epoch, _) in held)
      assert request.dropped <= len(request.want)


@pytest.mark.parametrize('seed', range(30))
def test_a_slot_holds_what_its_sequence_wants(seed):
  """Random conversations: forks, drops, cuts, adapters, other parameters."""
  rng = np.random.default_rng(seed)
  slots, adapters = int(rng.integers(1, 5)), 1 + seed % 2
  scheduler = Scheduler(slots, near=int(rng.integers(0, 4)))
  cache = Cache(scheduler, slots)
  # Of sequences that wait for a world.
  said = {0: rng.integers(0, 3, 9).tolist()}
  turns, born, rounds = dict.fromkeys(said, 3), 1, 0
  while turns:
    for name in [n for n in said if rng.random() < 0.7]:
      context = said.pop(name)
      if rng.random() < 0.5 and born < 12:  # another goes on from here
        said[born] = context[: rng.integers(1, len(context) + 1)]
        turns[born], born = 3, born + 1
      context += rng.integers(0, 3, 1 + rng.integers(4)).tolist()
      scheduler.submit(name, context, adapter=int(rng.integers(adapters)))
    if rng.random() < 0.2:
      cache.renew()
    elif rng.random() < 0.2:
      cache.drop()
    cache.assign_slots()
    cache.check()
    for name, request in scheduler.scheduled().items():
      if scheduler.pending(request):
        cache.read(request, int(rng.integers(1, 6)))
      else:
        cache.write(request, rng.integers(0, 3, 1 + rng.integers(3)).tolist())
        if rng.random() < 0.5:
          wrote = len(request.want) - request.begun
          scheduler.end(request, int(rng.integers(1, wrote + 1)))
          said[name] = list(request.want)
          turns[name] -= 1
    cache.check()
    for name in [n for n in turns if not turns[n] or rng.random() < 0.01]:
      scheduler.cancel(name)
      turns.pop(name)
      said.pop(name, None)
    rounds += 1
    assert rounds < 2000, 'somebody never gets to speak'
  assert not scheduler.busy
  assert not scheduler.scheduled()


def test_a_group_waits_for_the_one_who_reads():
  scheduler = Scheduler(3, near=2)
  prompt = list(range(10))
  for name in range(3):
    scheduler.submit(name, [*prompt, name])
  assert scheduler.assign_slots() == [SlotAssignment(0, None, 0, False)]
  first = scheduler.scheduled()[0]
  assert scheduler.read(first, 4) == prompt[:4]
  assert scheduler.assign_slots() == []  # there is more to share still
  assert scheduler.read(first, 99) == prompt[4:]
  assert scheduler.pending(first) == 0
  assert scheduler.assign_slots() == [
    SlotAssignment(1, 0, 10, False),
    SlotAssignment(2, 0, 10, False),
  ]
  assert [scheduler.pending(x) for x in scheduler.scheduled().values()] == [
    0,
    0,
    0,
  ]


def test_who_waits_for_a_world_and_has_read_least_goes_first():
  scheduler = Scheduler(2, near=0)
  for name, size in ((0, 8), (1, 4)):
    scheduler.submit(name, [name] * size)
    scheduler.assign_slots()
    request = scheduler.scheduled()[name]
    scheduler.read(request, 99)
    scheduler.write(request, [7])
    scheduler.end(request, 1)
  scheduler.submit(2, [2, 2])
  assert scheduler.assign_slots() == [SlotAssignment(1, None, 0, True)]
  scheduler.submit(3, [0] * 5)  # a fork of 0, which waits
  assert scheduler.assign_slots() == [SlotAssignment(0, None, 4, True)]
  scheduler.submit(0, [0] * 9)
  assert scheduler.assign_slots() == []  # both speak
  scheduler.cancel(2)
  assert scheduler.assign_slots() == [SlotAssignment(1, 0, 4, False)]


def test_nobody_begins_from_what_others_have_read():
  scheduler = Scheduler(2, near=0)
  scheduler.submit(0, [1, 2, 3])
  scheduler.assign_slots()
  request = scheduler.scheduled()[0]
  scheduler.read(request, 99)
  scheduler.renew()
  scheduler.submit(1, [1, 2, 3])
  assert scheduler.assign_slots() == [SlotAssignment(1, None, 0, False)]
  scheduler.write(request, [4])
  scheduler.end(request, 1)
  scheduler.submit(0, [1, 2, 3, 4, 5])  # its own past it keeps
  request = scheduler.scheduled()[0]
  assert (request.slot, scheduler.pending(request)) == (0, 1)


def test_common():
  rng = np.random.default_rng(9)
  for _ in range(300):
    a, b = (rng.integers(0, 2, rng.integers(0, 12)).tolist() for _ in 'ab')
    want = next(
      (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
      min(len(a), len(b)),
    )
    assert scheduler.common(a, b) == want
