"""Runs and checkpoints at an address: their names, sizes and weights."""

import pytest

from agentrl.run import serving, workdir
from tests.run.small_configs import countdown


def test_models_have_the_names_of_their_folders():
  assert serving.sources(['runs/a/', 'b=runs/a', 'c=x=y']) == {
    'a': 'runs/a/',
    'b': 'runs/a',
    'c': 'x=y',
  }


@pytest.mark.parametrize(
  ('words', 'sentence'),
  [
    (['runs/a', 'old/a'], "runs/a and old/a would both be served as 'a'"),
    (['=runs/a'], "'=runs/a' names no folder"),
    (['a='], "'a=' names no folder"),
  ],
)
def test_names_that_cannot_be(words, sentence):
  with pytest.raises(ValueError, match=sentence):
    serving.sources(words)


def test_folders_that_hold_no_model(tmp_path):
  with pytest.raises(ValueError, match='nowhere'):
    serving.load(str(tmp_path / 'nowhere'))
  workdir.keep_config(countdown(), str(tmp_path))
  with pytest.raises(ValueError, match='holds no checkpoint yet'):
    serving.load(str(tmp_path))
  assert sorted(x.name for x in tmp_path.iterdir()) == ['config.json']
