"""Tasks that attempts write for others: rows, credit, and kills."""

import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import agent0, grpo, ssp
from agentrl.env import base, proposals
from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.questions import FactQuestion
from agentrl.learner import update
from agentrl.run import build, runner
from agentrl.runtime import install
from agentrl.types import Agent
from tests import errors
from tests.integration import parts_test, proposing
from tests.integration.cut import after_row
from tests.integration.same import SLOTS, assert_same_run, rows

RIGHT, OTHER = '<answer>3*4</answer>', '<answer>3+4</answer>'
POSED = '<answer>12: 3 4</answer>'
CALL = '<calculator>3*4</calculator>'


def texts(s, batch):
  tokens, seg = np.asarray(batch.rows.tokens), np.asarray(batch.rows.seg)
  return [
    s.tokenizer.decode(x[y >= 0]) for x, y in zip(tokens, seg, strict=True)
  ]


def credit_of(s, batch):
  """Advantage of each trajectory, equal on all of its turns, and who counts.

  Returns: [B] f32, [B] bool
  """
  spec = s.algorithm.spec
  for name in spec.curate:
    values = spec.values('curate', name)
    batch = registry.bind('curate', name, values)(batch)
  turn = np.asarray(update.compute_advantage(s.algorithm, batch, {})[0].turn)
  valid = np.asarray(batch.turns.valid & batch.turns.scored)
  for values, mask in zip(turn, valid, strict=True):
    assert len({*values[mask]}) <= 1
  return np.where(valid, turn, 0)[:, 0], valid.any(axis=1)


def z(x):
  x = np.asarray(x, float)
  return (x - x.mean()) / (x.std(ddof=1) + 1e-6)


@pytest.mark.slow
def test_both_roles_are_rows_of_one_batch(tmp_path, monkeypatch):
  said = {0: [POSED], 4: ['rubbish']}
  said |= {1: [RIGHT], 2: [CALL, RIGHT], 3: [OTHER], 5: [RIGHT]}
  proposing.says(monkeypatch, said)
  s = build.experiment(proposing.config(agent0, tmp_path))
  batch, told = proposing.collected(s)
  agent = [Agent.PROPOSER, *[Agent.SOLVER] * 3] * 2
  np.testing.assert_array_equal(batch.turns.agent[:, 0], agent)
  np.testing.assert_array_equal(batch.ids['seat'], agent)
  np.testing.assert_array_equal(batch.ids['match'], [0] * 4 + [1] * 4)
  np.testing.assert_array_equal(batch.ids['group'], [2, 0, 0, 0, 2, 1, 1, 1])
  # 'rubbish' is no answer, and there are two turns more to give one.
  np.testing.assert_array_equal(
    np.sum(batch.turns.valid, axis=1), [1, 1, 2, 1, 3, 0, 0, 0]
  )
  read = texts(s, batch)
  assert read[0].startswith('pose: 2 numbers to 30\n')
  assert all(x.startswith('12: 3 4\n') for x in read[1:4])
  assert read[5:] == [''] * 3
  np.testing.assert_array_equal(batch.outcome, [1, 1, 1, 0, 0, 0, 0, 0])
  assert int(batch.sampled['attempts']) == 5
  # min(p, 1 - p) + 0.05 calls - share of those alike; -1 - share.
  want = [1 / 3 + 0.05 / 3 - 0.5, 1, 1, 0, -1.5]
  total = np.sum(batch.turns.reward, axis=1)
  np.testing.assert_allclose(total[:5], want, atol=1e-6)
  assert told['rollout/proposals/format'] == 1
  kind = registry.get('rollout', 'host_proposed')
  measured = {k: float(x / n) for k, (x, n) in kind.metrics(batch).items()}
  assert measured == pytest.approx(
    {
      'proposals/valid': 0.5,
      'proposals/solved': 2 / 3,
      'proposals/agreement': 2 / 3,
      'proposals/diversity': 0.5,
    }
  )


@pytest.mark.slow
def test_agent0_trusts_what_solvers_agree_on(tmp_path, monkeypatch):
  """Credit by hand: the frontier, repetition, votes, trust; no verifier.

  Of the first unit the majority is wrong, of the second none is: its
  solvers are dropped.
  """
  said = {0: [POSED], 1: [OTHER], 2: [OTHER], 3: [RIGHT]}
  said |= {b: ['<answer>9: 4 5</answer>'] for b in [4]}
  said |= {b: ['<answer>4+5</answer>'] for b in (5, 6, 7)}
  proposing.says(monkeypatch, said)
  s = build.experiment(proposing.config(agent0, tmp_path))
  batch, _ = proposing.collected(s)
  assert np.sum(batch.turns.valid) == 8
  got, counts = credit_of(s, batch)
  propose = z([1 / 3 - 0.5, 0 - 0.5])
  trust = 0.6 + 0.4 * (2 / 3 - 0.3) / 0.5
  np.testing.assert_allclose(got[[0, 4]], propose, rtol=1e-4)
  np.testing.assert_allclose(got[1:4], trust * z([1, 1, 0]), rtol=1e-4)
  np.testing.assert_array_equal(counts, [True] * 5 + [False] * 3)


def test_equal_proposals_pay_less_than_different_ones(tmp_path, monkeypatch):
  def earned(second):
    said = {0: [POSED], 4: [f'<answer>{second}</answer>']}
    said |= {b: [RIGHT] for b in (1, 2, 5, 6)}
    with monkeypatch.context() as patch:
      proposing.says(patch, said)
      batch, _ = proposing.collected(s)
    assert np.asarray(batch.turns.terms['is_task']).sum() == 8
    return float(np.sum(batch.turns.reward[0]))

  s = build.experiment(proposing.config(agent0, tmp_path))
  alike, different = earned('12: 3 4'), earned('20: 24 4')
  np.testing.assert_allclose(
    [alike, different], [1 / 3 - 1, 1 / 3 - 0.5], rtol=1e-6
  )


@pytest.fixture(scope='module')
def searched():
  pytest.importorskip('bm25s', reason=install.command('host'))


@pytest.mark.slow
@pytest.mark.usefixtures('searched')
@pytest.mark.parametrize('commit', ['first', 'after'])
def test_ssp_pays_for_what_is_not_solved(tmp_path, monkeypatch, commit):
  """Unless it cannot be: a cheat pays only where the verifier is told."""
  c = proposing.config(ssp, tmp_path, people=100, commit=commit)
  s = build.experiment(c)
  corpus = s.world.family.corpus()
  asked = [s.world.family.seed(s.world.tasks[i])['answer'] for i in (0, 1)]
  # What an honest proposer would find for the first answer.
  start, relation = proposing.asking(corpus, asked[0])[0]
  question = questions.text(FactQuestion('chain', start, (relation,)))
  other = next(
    x
    for x, r, end in proposing.chains(corpus, corpus.entities[start].kind)
    if r == relation and end not in asked and x not in asked
  )
  cheat = questions.text(FactQuestion('chain', other, (relation,)))
  call = f'<bm25>{start} {relation}</bm25>'
  answer = lambda x: f'<answer>{x}</answer>'  # noqa: E731
  said = {0: [call, answer(question)], 4: [call, answer(cheat)]}
  said |= {b: [answer(asked[0])] for b in (1, 2)}
  s.world.tasks[1] = s.world.tasks[0]  # both are asked for the same
  proposing.says(monkeypatch, said)
  batch, told = proposing.collected(s)
  total = np.sum(batch.turns.reward, axis=1)
  np.testing.assert_allclose(total[:4], [1 / 3, 1, 1, 0], atol=1e-6)
  fooled = commit == 'after'
  assert total[4] == fooled  # nobody solves what has another answer
  assert told.get('rollout/proposals/unanswerable', 0) == 1 - fooled
  got, _ = credit_of(s, batch)
  np.testing.assert_allclose(got[[0, 4]], z([1 / 3, fooled]), rtol=1e-3)
  np.testing.assert_allclose(got[1:4], z([1, 1, 0]), rtol=1e-3)


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    ({'rollout.group_size': 1}, 'rollout.group_size 1'),
    ({'collect': 'dynamic'}, 'collect once dynamic'),
    ({'judge': ('number',)}, 'judge number'),
    ({'rollout.kind': 'host'}, 'column:agent'),
    ({'hp.reward.proposing.shape': 'hard'}, 'proposing.shape hard'),
    ({'hp.curate.within_frontier.low': 0.9}, 'within_frontier.low 0.9'),
    ({'hp.episode.scale_by_trust.low': 0.9}, 'scale_by_trust.low 0.9'),
    ({'hp.ppo_by_trust.ppo_by_trust.wider': -1.0}, 'ppo_by_trust.wider -1'),
  ],
)
def test_mistakes_are_found_before_anything_is_built(
  tmp_path, changes, sentence
):
  c = proposing.config(agent0, tmp_path)
  for path, value in changes.items():
    node, names = c, path.split('.')
    for name in names[:-1]:
      node = node[name]
    with node.unlocked():
      node[names[-1]] = value
  with errors.raises(ValueError, sentence):
    build.experiment(c)


def test_a_world_without_proposals_is_refused(tmp_path):
  with errors.raises(ValueError, 'host_proposed env:proposals'):
    build.experiment(
      proposing.small(agent0.get_config('tiny,env=countdown'), tmp_path)
    )


@pytest.mark.usefixtures('searched')
@pytest.mark.parametrize(
  'method', [agent0, pytest.param(ssp, marks=pytest.mark.slow)]
)
def test_a_world_has_as_many_tasks_as_its_config_asks_for(method):
  c = method.get_config()
  family = base.of(c.env.to_dict())
  made = list(family.tasks('train', c.env.train, c.env.seed))
  shown = [bool(x.demonstration) for x in made if proposals.SEED in x.task]
  assert len(made) == c.env.train == 2 * len(shown)
  assert np.mean(shown) > 0.4


@pytest.mark.nightly
@pytest.mark.parametrize('bound', [0, 1])
def test_killed_and_resumed_with_equal_rows(tmp_path, monkeypatch, bound):
  said = {0: [POSED], 4: ['<answer>20: 24 4</answer>']}
  proposing.says(monkeypatch, said, alone=True)
  c = proposing.config(agent0, tmp_path)
  c.steps, c.checkpoint.every, c.sft.steps = 4, 2, 0
  c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
  if bound:
    c.staleness.update(dict(bound=bound, anchor='behaviour'))
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  with after_row(3):
    runner.run(c, cut)
  assert rows(cut)[-1]['step'] == 3
  runner.run(c, cut)
  assert_same_run(whole, cut, steps=4, but=SLOTS)
  made = [r for r in rows(whole) if r['phase'] == 'rl']
  assert all(r['rollout/proposals/valid'] == 1 for r in made)
  assert all(r['rollout/attempts'] == 8 for r in made)


def spoken_for_agent0():
  """Half of it is called before, agreed on, or wrong; the last is too easy."""
  said = {0: [POSED], 1: [CALL, OTHER], 2: [OTHER], 3: [RIGHT]}
  return said | {4: [POSED], 5: [RIGHT], 6: [RIGHT], 7: [RIGHT]}


@pytest.mark.nightly
def test_every_part_of_agent0_acts(tmp_path, monkeypatch):
  """Taken out, each changes what is earned, credited or learned."""
  proposing.says(monkeypatch, spoken_for_agent0())
  c = proposing.config(agent0, tmp_path)
  plain = proposing.config(grpo, tmp_path, arg='tiny,env=proposed_countdown')
  for x in (c, plain):
    x.role.policy.update(dict(lr=0.05, warmup=0))
    x.hp.minibatch.minibatches.epochs = 4
  out = parts_test.found(c, plain, None)
  assert [part for part, acts in out.items() if not acts] == []
  assert {'curate', 'loss', 'reward', 'episode: scale_by_trust'} <= set(out)
