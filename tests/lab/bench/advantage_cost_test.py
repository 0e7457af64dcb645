"""The made-up batch of the benchmark of advantages keeps a batch's laws."""

import numpy as np

from agentrl import registry
from agentrl.lab.bench import advantage_cost


def test_sampled_tokens_belong_to_turns_that_there_are():
  batch = advantage_cost.made_up(16, 4, 64, ('env', 'progress'))
  rows, valid = batch.rows, np.asarray(batch.turns.valid)
  sampled = np.asarray(rows.sampled)
  traj, turn = (np.asarray(x)[sampled] for x in (rows.traj, rows.turn))
  assert valid[traj, turn].all()
  # Every turn says something, a half of what it holds.
  assert {*zip(traj.tolist(), turn.tolist(), strict=True)} == {
    *zip(*(x.tolist() for x in np.nonzero(valid)), strict=True)
  }
  assert (np.asarray(rows.logp)[~sampled] == 0).all()
  assert (np.asarray(rows.seg) >= 0).sum() == 2 * sampled.sum()
  assert set(batch.turns.terms) == {'env', 'progress'}


def test_groups_are_whole():
  batch = advantage_cost.made_up(16, 4, 64, ())
  sizes = np.bincount(np.asarray(batch.ids['group']))
  np.testing.assert_array_equal(sizes, [advantage_cost.GROUP] * 2)


def test_terms_are_those_that_links_of_the_method_read():
  links = 'turn_reward', 'add_label', 'center'
  spec = registry.MethodSpec(advantage=('a',), stream={'a': links})
  assert advantage_cost.needed(spec, 'term') == {'progress'}
  spec = registry.MethodSpec(advantage=('a',), stream={'a': ('turn_reward',)})
  assert advantage_cost.needed(spec, 'term') == set()
