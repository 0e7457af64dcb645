"""Methods of pairs, searches and several agents, each whole on 2 x 4 devices.

All stages of a config run in order, in its own world, by its own collector,
seats, judges, services, retrievers and memory; every stage takes two updates or
more. Of each it is held that the roles which are to learn change and all others
are bit for bit as they were, that numbers are finite, and that there was
something to learn from. What rounds repeat is run once.

An untrained policy solves no task of a world of text: there every second
attempt says a script, right or wrong, and the policy samples the others.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from ml_collections import ConfigDict

from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.questions import FactQuestion
from agentrl.run import config_file
from agentrl.runtime import install
from tests.integration import (
  half_good,
  mesh_runs,
  pae_test,
  proposing,
  staged_methods_test,
)

pytestmark = pytest.mark.nightly

SEATS = {0, 1}  # or a proposer and solvers
POLICY = {'policy'}
WARM = {'sft': POLICY}
RL = WARM | {'rl': POLICY}
JIT = mesh_runs.SIZES | mesh_runs.MODEL | {
  'micro_batch': 16,
  'steps': 2,
  'sft.steps': 60,  # so that some tasks are solved
  'sft.batch': 16,
  'sft.lr': 1e-2,
  'rollout.batch': 16,
  'rollout.slots': 16,
  'env.train': 24,
  'env.test': 6,
}  # fmt: skip
SOKOBAN = {
  'env.min_moves': 1,
  'env.max_moves': 2,
  'rollout.max_turns': 4,
}
FEW = {'rollout.group_size': 4, 'env.train': 16, 'env.test': 4}
HOST = JIT | FEW | {
  'micro_batch': 8,
  'sft.steps': 2,
  'sft.batch': 8,
  'rollout.batch': 8,
  'rollout.slots': 8,
}  # fmt: skip
FACTS = HOST | {'env.people': 100}


class Case(NamedTuple):
  """How a config is shortened, and what has to be seen.

  learns: by stage, the roles that change
  says: scripts of every second attempt on hosts; what plays otherwise
  agents: who speaks in every batch of 'rl'
  told: a metric that is above 0 in some step, where the method can act
  """

  learns: Mapping[str, set[str]] = RL
  changes: Mapping[str, Any] = JIT | SOKOBAN
  says: Callable | None = None
  agents: set[int] | None = None
  told: str = ''


def scripted(say):
  return lambda patch: half_good.plays(patch, say, every=2)


def paths(demo):
  """Right, in a detour, wrong, from memory, and not understood first."""
  *calls, answer = demo
  wrong = [*calls, '<answer>Nobody</answer>']
  return [demo, [*calls[:1], *demo], wrong, demo, ['hm', *demo], [answer]]


def sums(demo):
  """Right, or wrong by arithmetic alone."""
  a, sign, b = re.findall(r'\d+|[-+*]', demo[-1])
  wrong = [f'<answer>{a}{x}{b}</answer>' for x in '+-*' if x != sign]
  return [demo, *([x] for x in wrong)]


def proposed_sums(patch):
  """Proposals of which two are tasks; solvers that agree, or do not."""
  said = {0: ['<answer>12: 3 4</answer>'], 4: ['<answer>20: 24 4</answer>']}
  said |= {1: ['<calculator>3*4</calculator>', '<answer>3+4</answer>']}
  said |= {2: ['<answer>3+4</answer>'], 5: ['<answer>24-4</answer>']}
  proposing.says(patch, said, rest=True)


def proposed_facts(patch):
  """Questions that have the answers asked for, and some right solvers."""

  def scripts(s, seeds):
    out = {}
    corpus, size = s.world.family.corpus(), s.config.rollout.group_size
    for at in range(0, len(seeds), size):
      asked = seeds[at]['answer']
      for start, relation in proposing.asking(corpus, asked)[:1]:
        question = questions.text(FactQuestion('chain', start, (relation,)))
        call = f'<bm25>{start} {relation}</bm25>'
        out[at] = [call, f'<answer>{question}</answer>']
        right = range(at + 1, at + 2 + (at == 0))  # not equally many
        out |= {b: [f'<answer>{asked}</answer>'] for b in right}
    return out

  proposing.says(patch, scripts, rest=True)


def chores(patch):
  """Every second attempt does what it was asked for."""
  pae_test.solves(patch, every=2)


def leaves(patch):
  """Trees of all that a script makes: an untrained policy rarely succeeds."""
  half_good.plays(patch, staged_methods_test.moves)


KUHN = Case(changes=JIT | {'env.train': 12}, agents=SEATS)
PAIRED = {
  'sft': POLICY,
  'sample_1': set(),
  'fit_1': POLICY,
}
REWARD = {'policy', 'reward'}
PREFERRED = WARM | {'judge': {'reward'}, 'rl': POLICY}
BASKETS = JIT | FEW
# Labels come in the second update, and pay in the third.
ONI = JIT | SOKOBAN | {
  'steps': 3,
  'hp.memory.annotations.lag': 1,
  'hp.memory.annotations.batches': 2,
}  # fmt: skip
CASES = {
  'aegis_errors': Case(changes=HOST, says=scripted(half_good.half_right)),
  'aepo': Case(),
  'agent0': Case(changes=HOST, says=proposed_sums, agents=SEATS,
                 told='rollout/proposals/valid'),
  'agent_q': Case(),
  'agent_r': Case(PAIRED, JIT | {'rollout.batch': 64, 'sft.steps': 2}, leaves),
  'anyprefer': Case(
    PAIRED,
    HOST | {'rollout.batch': 32, 'sft.batch': 4, 'micro_batch': 4},
    scripted(sums),
    told='rollout/judge/tool_ranking/pairs',
  ),
  'appo': Case(
    changes=JIT
    | {'env.size': 1, 'env.letters': 2, 'env.fillers': 1, 'steps': 3},
    told='rollout/branched',
  ),
  'armap': Case(
    WARM | {'explore': set(), 'judge': {'reward'}},
    HOST | {'rollout.batch': 32, 'rollout.group_size': 8},
    scripted(staged_methods_test.households),
  ),
  'chain_of_agents': Case(changes=FACTS, says=scripted(paths)),
  'coopetition_gym': KUHN,
  'digiq': Case(WARM | {'rl': {'policy', 'critic', 'target'}}),
  'cpr_norms': Case(
    changes=HOST
    | {'rollout.batch': 32, 'rollout.group_size': 16, 'sft.steps': 40,
       'sft.batch': 16},
    agents={0, 1, 2, 3},
  ),
  'dr_mas:env=kuhn_poker': KUHN,
  'flow_grpo': Case(),
  'heron': Case(WARM | {'rl': REWARD}, BASKETS | {'steps': 3}),
  'mars': KUHN,
  'multicritique': Case(changes=HOST, says=scripted(half_good.half_right)),
  'oni': Case(changes=ONI, told='annotations/label'),
  'oni_learned': Case(
    WARM | {'rl': REWARD}, ONI, told='annotations/label'
  ),
  'pae': Case(
    {'warm': POLICY, 'rl': POLICY},
    HOST | {'hp.memory.replay.capacity': 6, 'hp.memory.replay.n': 4,
            'micro_batch': 4, 'env.noise': 0.0},
    chores,
    told='rollout/judge/function/score',
  ),
  'preflexor': Case(
    WARM | {'integrate': POLICY, 'reason': POLICY}, FACTS, scripted(paths)
  ),
  'proactive_agent': Case(WARM, HOST),
  'salmon': Case(PREFERRED, BASKETS),
  'seeupo': Case(),
  'spiral': KUHN,
  'spiral_magnet': KUHN,
  'ssp': Case(changes=FACTS, says=proposed_facts, agents=SEATS,
              told='rollout/proposals/valid'),
  'swe_trace': Case(changes=HOST, says=scripted(half_good.half_right)),
  'tearag_ipdpo': Case(
    PAIRED, FACTS | {'env.careful': 0.0, 'rollout.batch': 16}, scripted(paths)
  ),
  'tool_star': Case(RL | {'self_critic': POLICY}, FACTS, scripted(paths)),
  'trace': Case(),
  'treeps_rag': Case(),
  'vpl': Case(PREFERRED, BASKETS),
  'vpr': Case(),
  'vpr_turn': Case(),
}  # fmt: skip


def config(name, case, folder):
  """The config, of one round where it has several, two updates a stage."""
  method, _, arg = name.partition(':')
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = module.get_config(f'tiny,{arg}')
  c.stages = tuple(x for x in c.stages if x in case.learns)
  with c.unlocked():
    c.stage = ConfigDict({x: c.stage[x] for x in c.stages if x in c.stage})
  config_file.change(c, {'data': str(folder), **case.changes})
  for stage in c.stage.values():
    stage.steps = 2
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('data')


@pytest.mark.parametrize('name', CASES)
def test_two_updates_of_every_stage(name, folder, tmp_path, monkeypatch):
  case = CASES[name]
  if case.changes.get('env.people'):
    pytest.importorskip('bm25s', reason=install.command('host'))
  if case.says:
    case.says(monkeypatch)
  out = mesh_runs.played(config(name, case, folder), tmp_path, monkeypatch)
  assert [*out] == [*case.learns]
  for stage, played in out.items():
    assert mesh_runs.moved(played) == case.learns[stage], stage
    mesh_runs.check_numbers(played, case.learns[stage])
  if case.agents:
    assert all(x == case.agents for x in out['rl'].agents)
  if case.told:
    rows = [row for played in out.values() for row in played.rows]
    assert any((row.get(case.told) or 0) > 0 for row in rows)
