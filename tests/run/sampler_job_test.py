"""Samplers that no learner waits for."""

import pytest

from agentrl.configs import grpo
from agentrl.run import sampler_job
from agentrl.run import workdir as workdir_lib
from agentrl.runtime.preemption import Stopped
from tests import errors


def stop():
  raise Stopped('SIGTERM')


def keep(tmp_path, **staleness):
  c = grpo.get_config('tiny')
  c.data = str(tmp_path / 'data')
  c.env.update(dict(train=8, test=4))
  c.staleness.update(staleness)
  workdir_lib.keep_config(c, str(tmp_path))


def test_a_sampler_of_too_few_devices_fails(tmp_path):
  keep(tmp_path, devices=999)
  with errors.raises(ValueError, 'staleness.devices=999'):
    sampler_job.serve(str(tmp_path), patience=0, say=lambda line: None)


def test_a_sampler_that_met_no_learner_fails(tmp_path):
  keep(tmp_path)
  with errors.raises(ValueError, f'--workdir {tmp_path} staleness.jobs'):
    sampler_job.serve(str(tmp_path), patience=0, say=lambda line: None)


def test_a_sampler_can_be_stopped_before_its_run_begins(tmp_path):
  with pytest.raises(Stopped):
    sampler_job.serve(str(tmp_path), stopping=stop, patience=600)
