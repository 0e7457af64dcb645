"""Benchmark of self-play: both ways play the same legal matches."""

import numpy as np
import pytest

from agentrl.env.jit.games import base
from agentrl.env.seats import Ruling
from agentrl.lab.bench import games, harness, kuhn_table, sampling
from tests.env.jit.games import plain


@pytest.mark.parametrize('deal', range(6))
def test_the_referee_has_the_rules_of_kuhn_poker(deal):
  def play(moves):
    """Plays moves to the end, or up to the next question."""
    referee = kuhn_table.Referee()
    ruling = referee.reset({'deal': deal}, 0)
    for a in moves:
      ruling = referee.step('pb'[a])
    at = plain.kuhn(deal, moves)
    if not isinstance(at[1], list):
      assert ruling.seat == ''
      assert [ruling.reward[x] for x in kuhn_table.SEATS] == list(at)
      return
    card = 'JQK'[plain.KUHN_DEALS[deal][at[0]]]
    said = ''.join('pb'[a] for a in moves)
    assert ruling == Ruling(kuhn_table.SEATS[at[0]], f'{card}{said}\n')
    forfeit = referee.step('x')
    lost = kuhn_table.SEATS[at[0]]
    assert forfeit.reward[lost] == base.FORFEITED
    assert sum(forfeit.reward.values()) == -1
    assert forfeit.info == {lost: {'illegal': 1.0}}
    for a in (0, 1):
      play((*moves, a))

  play(())


@pytest.mark.slow
def test_both_ways_play_the_same_legal_matches(tmp_path):
  """Equal work is what makes the ratio one of games per second."""
  with games.matches(sampling.TINY, str(tmp_path)) as cases:
    jit, host = (cases[x].call()[0] for x in ('games_jit', 'games_host'))
    assert cases['games_jit'].makes == cases['games_host'].makes
    assert cases['games_host'].base == 'games_jit'
  matches = games.MATCHES * sampling.TINY.batch
  valid = np.asarray(jit.turns.valid)
  assert valid.shape[0] == 2 * matches
  np.testing.assert_array_equal(valid, host.turns.valid)
  np.testing.assert_allclose(
    np.where(valid, jit.turns.reward, 0), np.where(valid, host.turns.reward, 0)
  )
  assert 2 * matches < valid.sum() < 3 * matches
  won = np.where(valid, jit.turns.reward, 0).sum(axis=1)
  assert {*np.abs(won)} <= {1.0, 2.0}  # nobody has forfeited
  assert len({*won}) == 4  # folds and showdowns, on both sides


@pytest.mark.slow
def test_the_ratio_is_told(tmp_path):
  told = []
  out = harness.run(sampling.TINY, str(tmp_path), 1, ['games'], told.append)
  rates = {f['name']: f['per_second']['matches'] for f in out['figures']}
  ratio = rates['games_jit'] / rates['games_host']
  assert out['growth'] == {'games_host': pytest.approx(ratio)}
  assert any('games_host takes' in x for x in told)
