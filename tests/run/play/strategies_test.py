"""Strategies read from a policy: against a plain pass, text by text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.configs import spiral
from agentrl.env.jit import base as env_base
from agentrl.env.jit.games import tree
from agentrl.learner.algorithm import POLICY
from agentrl.nn import transformer
from agentrl.run import build
from agentrl.run.play import strategies


def experiment(folder, **env):
  c = spiral.get_config()
  c.data = str(folder)
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.env.update(dict(train=12, test=6) | env)
  return build.experiment(c)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('data')


@pytest.mark.slow
@pytest.mark.parametrize('illegal', ['forfeit', 'random'])
def test_moves_are_read_from_the_policy(folder, illegal):
  s = experiment(folder, illegal=illegal)
  params = mesh.init(
    s.algorithm.context.modules[POLICY].specs, jax.random.key(1)
  )
  game, words = tree.build(s.world.env.rules), s.tokenizer
  got = strategies.strategy(s, game)(params)
  logits = jax.jit(
    lambda p, t: jax.nn.log_softmax(
      transformer.logits(
        p, transformer.forward(s.shape, p, t, jnp.zeros_like(t)), 0.0
      )
    )
  )
  for i, obs in enumerate(game.obs):
    text, chance = env_base.render_text(s.world.env, obs), []
    for action in s.world.env.actions:
      prompt = words.encode(text)
      said = [*words.encode(action), words.eot]
      tokens = np.zeros((1, 8), np.int32)  # one shape for all
      tokens[0, : len(prompt + said)] = prompt + said
      logp = np.asarray(logits(params, tokens)[0])
      at = range(len(prompt) - 1, len(prompt) + len(said) - 1)
      chance.append(
        np.exp(sum(float(logp[j, t]) for j, t in zip(at, said, strict=True)))
      )
    legal = sum(chance)
    np.testing.assert_allclose(got.legal[i], legal, rtol=1e-4)
    want = np.array(chance) / legal
    if illegal == 'random':
      want = np.array(chance) + (1 - legal) / 2
    np.testing.assert_allclose(got.moves[i], want, rtol=1e-4)
  measured = strategies.reader(s)(params)
  np.testing.assert_allclose(
    measured['eval/exploitability'], tree.exploitability(game, got.moves)
  )
  assert 0 < measured['eval/legal'] < 0.1
  paid = {
    f'eval/pay_against/{name}': tree.pay(
      game, got.moves, tree.tabulated(game, s.world.env.rules, player)
    )
    for name, player in s.world.env.rules.opponents.items()
  }
  assert paid == {x: y for x, y in measured.items() if 'pay_against' in x}
  assert paid['eval/pay_against/equilibrium'] < 0


def test_only_exact_strategies_are_measured(folder):
  s = experiment(folder)
  assert strategies.reader(s) is not None
  assert strategies.reader(experiment(folder, opponent='random')) is not None
  plan = s.plan.__class__
  for change in (dict(history='full'), dict(window=2)):
    sizes = {f: getattr(s.plan, f) for f in plan.__dataclass_fields__} | change
    assert strategies.reader(s._replace(plan=plan(**sizes))) is None
