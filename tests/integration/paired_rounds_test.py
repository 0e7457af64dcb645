"""TeaRAG, played by a script: its rounds learn from the paths they sampled."""

import numpy as np
import pytest

from agentrl.configs import tearag_ipdpo
from agentrl.dataset import trajectory_store
from agentrl.runtime import install
from tests.integration import pair_rounds

pytest.importorskip('bm25s', reason=install.command('host'))
pytestmark = pytest.mark.slow

UPDATES = pair_rounds.UPDATES
WORLD = {'env.careful': 0.0, 'env.people': 100}


def ways(demo):
  """Right in detours, right, from memory; wrong; not understood first."""
  *calls, answer = demo
  wrong = [*calls, '<answer>Nobody</answer>']
  detour = [*calls, calls[0], answer]
  return [detour, demo, demo, wrong, ['hm', *demo], [answer], wrong, detour]


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  folder = tmp_path_factory.mktemp('rounds')
  c = pair_rounds.shorten(tearag_ipdpo.get_config('tiny'), folder, **WORLD)
  return pair_rounds.played(c, folder, ways)


def test_only_the_policy_learns_and_its_reference_is_the_round_before(run):
  pair_rounds.check_learning(run, 3, ('dpo/pairs', 'winner_nll/nll'))


def test_pairs_are_of_the_last_samples_and_say_which_path_is_better(run):
  """Right ones among the losers too, which outcomes would not tell apart."""
  for r in (1, 2, 3):
    store = trajectory_store.open_store(run[0], f'fit_{r}.paired')
    xs = store.take(np.arange(len(store)))
    (at,) = {x.step for x in xs}  # of one stage: the one before
    assert at == 1 + (r - 1) * (1 + UPDATES)
    kinds = set()
    for win, lose in zip(xs[::2], xs[1::2], strict=True):
      assert win.task == lose.task
      assert win.solved
      good, bad = term(win), term(lose)
      assert not good['invalid']
      if bad['invalid']:
        kinds.add('malformed')
      elif not lose.solved:
        kinds.add('wrong')
      else:
        kinds.add('weaker')
        assert bad['evidence_coverage'] < good['evidence_coverage'] - 0.05
    assert kinds == {'malformed', 'wrong', 'weaker'}


def term(x):
  """Sums of the terms of a trajectory."""
  names = 'invalid', 'evidence_coverage'
  return {n: sum(t.terms[n] for t in x.turns) for n in names}
