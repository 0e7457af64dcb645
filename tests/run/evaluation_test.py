"""Models at an address on our environments: flags, and the same result."""

import re

import pytest

from agentrl.configs import grpo
from agentrl.hooks import NothingPlayedError
from agentrl.log import trajectories
from agentrl.run import evaluation as lib
from agentrl.run import runner
from agentrl.run.check import fields
from agentrl.serve import serving
from agentrl.service.chat_completions import Endpoint
from tests import errors
from tests.gateway.served_test import serving as served
from tests.run.small_configs import countdown


@pytest.mark.parametrize(
  ('flags', 'sentence'),
  [
    ((None, '', '', None), '--workdir'),
    (('run', 'countdown', '', None), '--workdir'),
    (('run', 'countdown', 'http://x', None), ''),
    ((None, '', 'http://x', None), ''),
    (('run', '', 'http://x', 'levels.txt'), '--levels levels.txt'),
  ],
)
def test_flags_that_do_not_go_together(flags, sentence):
  with errors.raises(ValueError, sentence):
    lib.check_flags(*flags)


def test_the_config_of_an_environment():
  c = lib.config_of(None, 'countdown', 'numbers=2, largest=9', 3)
  assert (c.env.settings['numbers'], c.env.settings['largest']) == (2, 9)
  assert c.rollout.max_turns == 3
  with errors.raises(ValueError, '--settings number'):
    lib.config_of(None, 'countdown', 'number=2', None)
  with errors.raises(ValueError, 'model'):
    lib.endpoint('http://x/v1', '', '', 1.0, c)
  endpoint = lib.endpoint('http://x/v1', 'org/m', '', 1.0, c)
  assert endpoint.max_tokens == lib.MESSAGE
  assert lib.folder(None, c, endpoint).endswith('runs/countdown_org_m')
  assert lib.folder('r', c, endpoint) == 'r/evaluations/address_org_m'


def test_what_cannot_be_played(tmp_path):
  endpoint = Endpoint('http://x/v1', 'm', '')
  how = dict(episodes=1, concurrency=1)
  with errors.raises(ValueError, 'env sokoban'):
    lib.evaluate_address(
      grpo.get_config('tiny'), endpoint, str(tmp_path / 'new'), **how
    )
  (tmp_path / 'file').touch()
  with pytest.raises(ValueError):
    lib.evaluate_address(countdown(), endpoint, str(tmp_path), **how)


@pytest.mark.slow
def test_a_model_of_a_stub(tmp_path):
  """Its trajectories are there to be seen, and its failures are no zeros."""
  c = lib.config_of(None, 'countdown', 'numbers=2', None)
  sizes = {'env.train': 8, 'env.test': 4, 'data': str(tmp_path / 'data')}
  c = fields.changed(c, sizes)
  with served('m') as (client, _):
    endpoint = Endpoint(f'{client.at.geturl()}/v1', 'm', '', tries=1)
    out = str(tmp_path / 'out')
    how = dict(episodes=6, concurrency=3)
    with errors.raises(NothingPlayedError, '6') as told:
      lib.evaluate_address(c, endpoint, out, **how)  # the key is missing
    assert '401' in str(told.value)
    assert not (tmp_path / 'out').exists()


@pytest.mark.nightly
def test_a_served_run_is_as_good_as_the_run(tmp_path):
  """Greedy, in equal conversations: the same episodes."""
  c = countdown()
  c.steps, c.sft.steps, c.eval.episodes = 1, 40, 8
  c.data = str(tmp_path / 'data')
  run = str(tmp_path / 'run')
  runner.run(c, run)
  want = runner.evaluate_run(run, episodes=8, temperature=0.0)
  loaded = {'m': serving.load(run)}
  with serving.opened(loaded, key='') as gateway:
    again = lib.config_of(run, '', '', None)
    endpoint = lib.endpoint(f'{gateway.address}/v1', 'm', '', 0.0, again)
    out = str(tmp_path / 'out')
    text = lib.evaluate_address(again, endpoint, out, episodes=8, concurrency=4)
    several = lib.evaluate_address(
      again, endpoint, f'{out}_2', episodes=8, attempts=2, concurrency=4
    )
  success = [re.search(r'success .* episodes', x)[0] for x in (want, text)]
  assert success[0] == success[1]
  assert len(trajectories.Log(out)) == 8
  how = dict(episodes=8, attempts=2)
  for text in (runner.evaluate_run(run, **how), several):  # four tasks
    assert '4 tasks, 2 attempts at each' in text
    assert '| random | 1 |' in text
