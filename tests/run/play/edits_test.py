"""Edited conversations as batches of a run: row 45's idea, and without it."""

import jax
import numpy as np
import pytest

from agentrl.configs import memact_dcpo
from agentrl.run import build
from agentrl.run.play import sampler
from agentrl.types import Status
from tests.run import small_configs


def config(folder, **edits):
  c = small_configs.two_layers(memact_dcpo.get_config('tiny'), folder)
  c.env.update(dict(train=8, test=4))
  c.rollout.update(dict(slots=3, max_turns=8, max_message_tokens=34))
  c.edits.update(edits)
  return c


@pytest.mark.parametrize(
  ('arm', 'status', 'segments'),
  [
    ('own', Status.SOLVED, {3}),
    ('ignored', Status.TOKEN_LIMIT, {0}),
    ('window', Status.SOLVED, {2, 3, 4}),
  ],
)
def test_demonstrations_drop_what_they_noted(tmp_path, arm, status, segments):
  """They solve their tasks if and only if that makes room."""
  s = build.experiment(config(tmp_path, arm=arm))
  with sampler.open_sampler(s) as playing:
    batch = playing.replay(playing.demos(np.arange(8)), jax.random.key(0))
  assert set(batch.status.tolist()) == {status}
  assert set(np.asarray(batch.rows.seg).max(axis=1).tolist()) <= segments
  edits = np.asarray(batch.turns.terms['edit'])
  valid = np.asarray(batch.turns.valid)
  assert (edits.sum(axis=1) == (1 if arm == 'ignored' else 3)).all()
  assert not np.asarray(batch.turns.terms['invalid']).any()
  rows = batch.rows
  sampled = np.asarray(rows.sampled)
  assert (np.asarray(rows.weight) == sampled).all()
  for b, k in np.argwhere(valid):
    mine = sampled[b] & (np.asarray(rows.turn)[b] == k)
    said = s.tokenizer.decode(np.asarray(rows.tokens)[b, mine].tolist())
    assert said.startswith('<drop>') == bool(edits[b, k])


def test_a_real_model_is_taught_the_call(tmp_path):
  """In its system message, in the format of its calls."""
  c = config(tmp_path, teach=True, calls='hermes')
  c.rollout.context = c.model.positions = 0
  s = build.experiment(c)
  assert '"drop"' in s.world.system
  assert 'tool_call' in s.world.system
  assert not build.experiment(config(tmp_path)).world.system
