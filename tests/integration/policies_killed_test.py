"""Two policies whose samplers are killed and added: the undisturbed run."""

import time

import pytest

from tests.integration import jobs_killed_test as one
from tests.integration import same

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
PLAYERS = 'policy', 'verifier'
SMALL = {
  'sft.steps': 0,
  'model.width': 16,
  'model.layers': 1,
  'rollout.batch': 32,
  'rollout.slots': 32,
  'micro_batch': 32,
  'sft.batch': 32,
  'env.train': 32,
  'env.test': 4,
  'env.illegal': 'random',
  'eval.episodes': 8,
  'checkpoint.every': 10_000,
}
STEPS = 60


class Processes(one.Processes):
  """Learners of astraflow, and their samplers."""

  def learner(self, run, **changes):
    flags = {**SMALL, 'data': self.folder / 'data', **changes}
    return self.start(
      'train',
      '--config=configs/astraflow.py',
      f'--workdir={self.folder / run}',
      *(f'--config.{name}={x}' for name, x in flags.items()),
    )

  def wait_for(self, step, run):
    while max(self.steps(), default=0) < step:
      assert run.poll() is None, self.said('train')
      time.sleep(0.1)


@pytest.fixture
def processes(tmp_path):
  made = Processes(tmp_path)
  yield made
  for process in made.open:
    made.kill(process)


def test_samplers_are_killed_and_added_within_a_run(processes):
  """Each batch once, and for both policies the bits of a run without jobs."""
  run = processes.learner('many', steps=STEPS, **{'staleness.jobs': True})
  first = processes.sampler()
  processes.wait_for(5, run)
  second = processes.sampler()
  processes.kill(first)  # nobody else is there yet: the batch waits
  processes.wait_for(15, run)
  third = processes.sampler()
  processes.wait_for(25, run)
  processes.kill(second)
  assert run.wait(timeout=1800) == 0, processes.said('train')
  assert third.wait(timeout=60) == 0, processes.said('sampler')
  rows = same.rows(processes.folder / 'many')
  rl = [x for x in rows if x['phase'] == 'rl']
  print(
    'lost', sum(x['samplers/lost'] for x in rl),
    'connected', [int(x['samplers/connected']) for x in rl],
  )  # fmt: skip
  assert sum(x['samplers/lost'] for x in rl) >= 1
  assert {x['rollout/age_max'] for x in rl} == {0, 1}
  assert all(f'rollout/{role}/return' in x for x in rl for role in PLAYERS)
  one.assert_undisturbed(processes, STEPS, **{'staleness.jobs': False})
