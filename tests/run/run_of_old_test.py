"""Run folders that an older version wrote: they resume under this one.

`run_of_old/` was made at f03b46e by the command in its header.json: its rows go
to step 4, its checkpoint is that of step 2.
"""

import json
import math
import pathlib
import shutil

import numpy as np
import pytest

from agentrl.log import metrics
from agentrl.run import runner, workdir

# Its policy is uniform and its advantages are 0: the gradient is of the size of
# rounding, and the first steps of Adam are its signs.
ROUNDING = {'ppo/ratio': 1e-3}
# Measured otherwise now: before the update, and over tasks, not episodes.
MISMATCH = 'logp/sampler_mismatch'
INTERVAL = {'eval/ci_low', 'eval/ci_high'}
RUN = pathlib.Path(__file__).with_name('run_of_old')


@pytest.mark.slow
def test_an_old_run_folder_resumes_with_the_numbers_it_had(tmp_path):
  run = shutil.copytree(RUN, tmp_path / 'run')
  config = json.loads((run / 'config.json').read_text())
  config['data'] = str(tmp_path / 'data')
  (run / 'config.json').write_text(json.dumps(config))
  old = metrics.read(run / metrics.FILE)
  runner.run(workdir.read_config(str(run)), str(run))
  new = metrics.read(run / metrics.FILE)
  assert [(x['step'], x['phase']) for x in new] == [
    (x['step'], x['phase']) for x in old
  ]
  assert new[:3] == old[:3]  # before the checkpoint: not touched
  for before, after in zip(old[3:], new[3:], strict=True):
    redefined = {'step', 'phase', 'time/seconds', MISMATCH} | INTERVAL
    for name in before.keys() - redefined:
      same = float(before[name]), float(after[name])
      near = np.isclose(*same, atol=ROUNDING.get(name, 1e-5))
      assert all(map(math.isnan, same)) or near, name
    if MISMATCH in before:
      assert not float(after[MISMATCH]) >= 1e-5  # NaN where none sampled
    if before.keys() >= INTERVAL:
      low, high = (float(after[x]) for x in ('eval/ci_low', 'eval/ci_high'))
      assert low <= float(after['eval/success']) <= high
  assert {x.name for x in (run / 'checkpoints').iterdir()} >= {'2', '4'}
