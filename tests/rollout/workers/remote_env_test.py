"""Episodes that lose their worker: nothing is lost, and what cannot be told."""

import contextlib
import pickle
import threading
import time
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor

import pytest

from agentrl.env.base import Step
from agentrl.rollout.workers import episodes
from agentrl.rollout.workers.listener import Listener
from agentrl.rollout.workers.pool import cluster_workers
from agentrl.rollout.workers.remote_env import LOSSES
from agentrl.rollout.workers.replies import InProcessEnv
from tests import errors
from tests.rollout import chatty
from tests.rollout.workers import naughty, rooms, traced

CHATTY = chatty.Chatty()
TASK = {'n': 3}


class Lossy:
  """A cluster of threads that can say that a worker is gone."""

  host = '127.0.0.1'

  def __init__(self):
    self.tasks: list[Future] = []
    self._pool = ThreadPoolExecutor(16)

  def submit(self, fn, /, *args):
    task = Future()
    self.tasks.append(task)

    def end(_):
      with contextlib.suppress(InvalidStateError):  # it was lost
        task.set_result(None)

    self._pool.submit(fn, *args).add_done_callback(end)
    return task

  def lose(self):
    self.tasks[-1].set_exception(OSError('the node is gone'))

  def close(self):
    self._pool.shutdown(wait=False)


def expected(messages) -> list:
  env = InProcessEnv(CHATTY, 1000)
  return [env.reset(TASK, 5), *(env.step(x) for x in messages)]


def test_a_lost_episode_is_told_again_what_it_was_told():
  """After every reply, and then the next message is answered."""
  cluster, said = Lossy(), ['a', 'b', 'c']
  with cluster_workers(CHATTY, 1, cluster) as workers:
    heard = [workers[0].reset(TASK, 5).result(rooms.WAIT)]
    for message in said:
      cluster.lose()
      heard.append(workers[0].step(message).result(rooms.WAIT))
    assert workers.taken() == {'resubmitted': 3}
    assert workers.taken() == {'resubmitted': 0}
  assert heard == expected(said)
  assert len(cluster.tasks) == 4


def test_a_worker_lost_while_it_answers():
  """Of an environment in a thread, whose answer is not heard twice."""
  cluster = Lossy()
  family = naughty.Family(worker='thread')
  with cluster_workers(family, 1, cluster) as workers:
    rooms.begin(workers[0])
    call = workers[0].step('hang 0.5')
    cluster.lose()
    late = call.result(rooms.WAIT)
    assert late.text == 'late'
    assert workers.taken() == {'resubmitted': 1}
    assert workers[0].step('say x').result(rooms.WAIT) == Step(
      'x', 1.5, info={'seen': 2.0, 'unseen': 0.0}
    )


def test_an_environment_that_is_not_a_function_of_its_messages():
  """It tells its process, which is another one after the loss."""
  cluster = Lossy()
  with cluster_workers(naughty.Family(), 1, cluster) as workers:
    rooms.begin(workers[0])
    cluster.lose()
    fault = rooms.fault_of(workers[0].step('say x'))
    assert fault.kind == 'crash'
    assert 'function' in fault.text
    assert rooms.begin(workers[0])[1] == '1'


def test_an_episode_survives_few_losses():
  cluster = Lossy()
  with cluster_workers(CHATTY, 1, cluster) as workers:
    workers[0].reset(TASK, 5).result(rooms.WAIT)
    for _ in range(LOSSES):
      cluster.lose()
      workers[0].step('x').result(rooms.WAIT)
    cluster.lose()
    fault = rooms.fault_of(workers[0].step('x'))
    assert fault.kind == 'crash'
    assert 'the node is gone' in fault.text
    workers[0].reset(TASK, 5).result(rooms.WAIT)  # another has its own count
    cluster.lose()
    workers[0].step('x').result(rooms.WAIT)
    assert workers.taken() == {'resubmitted': LOSSES + 1}


class Absent(Lossy):
  """A cluster that lacks the package."""

  def submit(self, fn, /, *args):
    self.tasks.append(Future())
    self.tasks[-1].set_exception(ModuleNotFoundError("No module 'agentrl'"))
    return self.tasks[-1]


def test_a_cluster_whose_workers_never_dial_is_a_mistake():
  cluster = Absent()
  with (
    cluster_workers(CHATTY, 1, cluster) as workers,
    errors.raises(ValueError, 'host.cluster host.callback agentrl'),
  ):
    workers[0].reset(TASK, 5).result(rooms.WAIT)
  assert len(cluster.tasks) == LOSSES + 1


def test_time_in_the_queue_is_not_the_environments():
  """One place: the second waits for it, and says so."""
  with cluster_workers(CHATTY, 2, rooms.threads(1)) as workers:
    workers[0].reset(TASK, 5).result(rooms.WAIT)
    waiting = workers[1].reset(TASK, 5)
    end = time.monotonic() + rooms.WAIT
    while not workers[1].delayed and time.monotonic() < end:
      time.sleep(0.001)
    workers[0].step('x').result(rooms.WAIT)
    assert workers[1].delayed
    assert not workers[0].delayed
    assert not waiting.done()
    workers[0].rest()
    assert waiting.result(rooms.WAIT) == expected([])[0]
    assert not workers[1].delayed
    with pytest.raises(ValueError):
      workers[0].step('x').result(rooms.WAIT)


def test_ended_in_the_queue():
  with cluster_workers(CHATTY, 2, rooms.threads(1)) as workers:
    workers[0].reset(TASK, 5).result(rooms.WAIT)
    waiting = workers[1].reset(TASK, 5)
    workers[1].end()
    assert rooms.fault_of(waiting).kind == 'timeout'
    workers[0].end()
    assert workers[1].reset(TASK, 5).result(rooms.WAIT) == expected([])[0]
    assert workers.taken() == {'resubmitted': 0}


def test_nothing_is_left_when_a_cluster_closes():
  threads = threading.active_count()
  with cluster_workers(CHATTY, 3, rooms.threads(3)) as workers:
    for i in range(3):
      workers[i].reset(TASK, i).result(rooms.WAIT)
    workers[0].step('x').result(rooms.WAIT)
  end = time.monotonic() + rooms.WAIT
  while threading.active_count() > threads and time.monotonic() < end:
    time.sleep(0.01)
  assert threading.active_count() <= threads


@pytest.mark.parametrize('place', rooms.CLUSTERS)
def test_large_messages_and_strange_ones_pass(place):
  with rooms.open_room(place) as room:
    rooms.begin(room)
    for word in ('x' * 90_000, 'Schaf\u2603', '"\\\x00'):
      assert room.step(f'say {word}').result(rooms.WAIT).text == word
    fault = rooms.fault_of(room.step('say \ud800'))
    assert fault.kind == 'malformed'


def test_nothing_is_played_for_a_trainer_that_expects_it_no_more(tmp_path):
  """A cluster may play a task again that it believes lost."""
  family = traced.Traced(folder=str(tmp_path))
  listener = Listener('127.0.0.1')
  task = [pickle.dumps(family), 1000, TASK, 5]
  where = listener.address, listener.key
  episodes.episode(*task, *where, 'unknown')
  assert not family.processes()
  line = listener.expect('known')
  thread = threading.Thread(
    target=episodes.episode, args=(*task, *where, 'known')
  )
  thread.start()
  line.result(rooms.WAIT).send(b'""')
  line.result().receive(10_000)
  line.result().close()
  thread.join(rooms.WAIT)
  assert len(family.processes()) == 1
  listener.close()
