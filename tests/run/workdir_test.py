"""Run folders: which config may go on in them, whatever wrote them."""

import functools
import json
import re

import pytest

from agentrl.run import config_file, workdir
from tests.run.small_configs import checkpoint as config


def test_a_run_of_another_checkpoint_cannot_be_the_beginning(tmp_path):
  workdir.keep_config(config(tmp_path, 'elsewhere'), str(tmp_path))
  c = config(tmp_path, '')
  c.init = str(tmp_path)
  with pytest.raises(ValueError, match=r'another model: model\.path is'):
    workdir.same_model(c)


OLD = {'lora': None, 'rollout.chat_format': None, 'rollout.system': None}


@pytest.mark.parametrize(
  ('path', 'old', 'now', 'message'),
  [
    ('', OLD, {}, None),
    ('', OLD | {'model.remat': False}, {}, None),
    ('', OLD | {'model.remat': True}, {'model.remat': 'layer'}, None),
    ('', OLD | {'model.remat': True}, {}, r"model\.remat is 'layer' there"),
    ('', {'lora.path': None}, {}, None),
    ('', {'lora.path': None}, {'lora.rank': 2}, r'lora\.rank is 0 there'),
    ('', {'model.attention': None}, {'model.attention': 'xla'}, None),
    ('', {'model.attention': None}, {}, r"attention is 'xla' there and 'auto'"),
    ('x', OLD, {'rollout.chat_format': 'bare'}, None),
    (
      'x',
      OLD,
      {},
      r"chat_format is 'bare' there and 'auto' here.*--config\.rollout\.",
    ),
  ],
)
def test_runs_from_before_an_entry_was_there(tmp_path, path, old, now, message):
  """They go on as what they were, or one sentence says what they were."""
  c = config(tmp_path, path)
  workdir.keep_config(c, str(tmp_path))
  file = tmp_path / workdir.CONFIG
  kept = json.loads(file.read_text())
  for name, value in old.items():
    *parts, last = name.split('.')
    place = functools.reduce(dict.get, parts, kept)
    if value is None:
      del place[last]
    else:
      place[last] = value
  file.write_text(json.dumps(kept))
  c.update_from_flattened_dict(now)
  if not message:
    workdir.same_config(c, str(tmp_path))
    return
  with pytest.raises(ValueError, match=message) as caught:
    workdir.same_config(c, str(tmp_path))
  assert '\n' not in str(caught.value)


def test_a_run_from_before_there_were_checkpoints_goes_on(tmp_path):
  c = config(tmp_path, '')
  workdir.keep_config(c, str(tmp_path))
  path = tmp_path / workdir.CONFIG
  old = json.loads(path.read_text())
  del old['model']['path']
  path.write_text(json.dumps(old))
  workdir.same_config(c, str(tmp_path))
  assert workdir.read_config(str(tmp_path)).model.path == ''
  with pytest.raises(ValueError, match=r'config\.model\.path'):
    workdir.same_config(config(tmp_path, 'elsewhere'), str(tmp_path))


@pytest.mark.parametrize(
  ('there', 'here', 'changes', 'named'),
  [
    # A world brings settings of its own, which differ because of it.
    ('grpo:tiny', 'grpo:tiny,env=countdown', {}, 'env.name'),
    ('grpo:tiny,env=countdown', 'grpo:tiny,env=frozen_lake', {}, 'env.name'),
    ('grpo:tiny', 'oprl:tiny', {}, 'method'),
    ('grpo:tiny', 'oprl:tiny,env=countdown', {}, 'env.name'),
    ('grpo:tiny', 'grpo:tiny', {'model.width': 8, 'data': 'x'}, 'model.width'),
    ('grpo:tiny', 'grpo:tiny', {'steps': 8, 'data': 'x'}, 'data'),
  ],
)
def test_what_others_follow_from_is_named_first(
  tmp_path, there, here, changes, named
):
  workdir.keep_config(config_file.load(there), str(tmp_path))
  c = config_file.load(here)
  c.update_from_flattened_dict(changes)
  with pytest.raises(ValueError, match=rf'config\.{re.escape(named)} is'):
    workdir.same_config(c, str(tmp_path))
