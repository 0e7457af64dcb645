"""Demonstrations as messages, and those of an expert that errs."""

import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.run import build
from agentrl.run.play import demonstrations, sampler
from agentrl.run.stage import sources
from tests.run.stage.prefixes_test import config, solution

ABC = [[[1, 0], [2, 3, 0]], [[2, 3, 0]], [], [[4, 0], [1, 0], [4, 0]]]
SAID = {(1, 0), (2, 3, 0), (4, 0)}


def test_errors_are_other_messages_at_the_rate():
  assert demonstrations.with_errors(ABC, 0.0, 3) == ABC
  every = demonstrations.with_errors(ABC, 1.0, 3)
  assert [len(x) for x in every] == [2, 1, 0, 3]
  many = [demonstrations.with_errors(ABC, 0.25, seed) for seed in range(400)]
  assert many[7] == demonstrations.with_errors(ABC, 0.25, 7)
  wrong = {}
  for made in many:
    for i, script in enumerate(ABC):
      for k, ids in enumerate(script):
        got = tuple(made[i][k])
        assert got in SAID
        seen = wrong.setdefault((i, k), [])
        seen += [got] * (got != tuple(ids))
  for (i, k), seen in wrong.items():
    assert set(seen) == SAID - {tuple(ABC[i][k])}
    assert 60 < len(seen) < 140  # of 400, one in four
  # Those of one trajectory do not depend on what others say.
  alone = demonstrations.with_errors([ABC[0], [[2, 3, 0]] * 9, ABC[3]], 0.5, 1)
  assert alone[0] == demonstrations.with_errors(ABC, 0.5, 1)[0]
  same = [[[5, 0]] * 3]
  assert demonstrations.with_errors(same, 1.0, 0) == same


def test_scripts_are_the_solutions(tmp_path):
  s = build.experiment(config(tmp_path, 'frozen_lake', max_turns=20))
  assert demonstrations.scripts(s) == [solution(s, i) for i in range(6)]


@pytest.mark.parametrize('env', ['frozen_lake', 'countdown'])
def test_an_expert_that_errs_is_played(tmp_path, env):
  """What it wrote, what it was told and what came of it."""
  c = config(tmp_path, env, 'expert_iteration', max_turns=12)
  c.mix.solved.update(kind='demonstrations', error_rate=0.5, edits=())
  c.sft.mix, c.stages, c.stage = ('solved',), ('sft',), {}
  s = build.experiment(c)
  wanted = demonstrations.with_errors(demonstrations.scripts(s), 0.5, c.seed)
  with sampler.open_sampler(s) as playing:
    source = sources.demonstrations(s, 'solved', s, playing)
    xs = source.take(np.arange(len(source.heads)))
  assert len(xs) == 6
  wrong = 0
  for i, x in enumerate(xs):
    script = [t.message.tolist() for t in x.turns]
    assert (x.task, x.source) == (i, 'demonstration')
    assert script == wanted[i][: len(script)]
    wrong += script != solution(s, i)
    if script == solution(s, i):
      assert x.solved
  assert any(not x.solved for x in xs)
  assert wrong > 0


def test_solutions_are_spoken_and_silence_follows(tmp_path):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=4))
  s = build.experiment(c)
  ids, length = demonstrations.messages(s)
  for i, actions in enumerate(s.train.actions.tolist()):
    for k in range(s.plan.turns):
      at = actions[k] if k < len(actions) else -1
      text = s.tokenizer.decode(ids[i, k, : length[i, k]].tolist())
      name = s.world.env.actions[at] if at >= 0 else ''
      assert (name in text) if name else (text == '')
      assert not ids[i, k, length[i, k] :].any()
  assert (length == 0).any()
  assert (length > 0).any()
