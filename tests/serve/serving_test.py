"""Runs and checkpoints at an address: their names, sizes and weights."""

import jax
import pytest

from agentrl import mesh
from agentrl.model import published
from agentrl.nn import lora, transformer
from agentrl.run import workdir
from agentrl.runtime import publish
from agentrl.serve import serving
from agentrl.text import chat_format, tokenizer
from tests import errors
from tests.gateway.stub import Client
from tests.run.small_configs import countdown

WORDS = tokenizer.Embedded()
VOCAB = WORDS.vocab_size
SHAPE = transformer.DecoderConfig(
  vocab=VOCAB, width=8, layers=1, heads=1, kv_heads=1, head_dim=8, mlp=8
)


def test_models_have_the_names_of_their_folders():
  assert serving.sources(['runs/a/', 'b=runs/a', 'c=x=y']) == {
    'a': 'runs/a/',
    'b': 'runs/a',
    'c': 'x=y',
  }


@pytest.mark.parametrize(
  ('words', 'sentence'),
  [
    (['runs/a', 'old/a'], 'runs/a old/a a'),
    (['=runs/a'], '=runs/a'),
    (['a='], 'a'),
  ],
)
def test_names_that_cannot_be(words, sentence):
  with errors.raises(ValueError, sentence):
    serving.sources(words)


def test_folders_that_hold_no_model(tmp_path):
  with errors.raises(ValueError, 'nowhere'):
    serving.load(str(tmp_path / 'nowhere'))
  workdir.keep_config(countdown(), str(tmp_path))
  with pytest.raises(ValueError):
    serving.load(str(tmp_path))
  assert sorted(x.name for x in tmp_path.iterdir()) == ['config.json']


def model():
  params = mesh.init(transformer.specs(SHAPE), jax.random.key(0))
  talk = chat_format.bare(WORDS)
  return serving.LoadedModel('x', SHAPE, params, 0, talk, 'hermes', 64, 8)


def test_weights_come_from_one_folder_whole_and_of_their_version(tmp_path):
  made, params = model(), model().params
  folders = {name: tmp_path / name for name in ('weights', 'elsewhere')}
  paths = {
    name: publish.publish(
      folder, 3, lambda place: published.write(place, SHAPE, params)
    )
    for name, folder in folders.items()
  }
  updates = str(folders['weights'])
  with serving.opened({'m': made}, slots=1, updates=updates) as gateway:
    client = Client(gateway.address, gateway.key)

    def told(path, version):
      body = {'path': str(path), 'version': version}
      status, reply = client.post('update_weights', body)
      return status, reply.get('error', {}).get('message', '')

    older = publish.publish(
      folders['weights'], 2, lambda place: published.write(place, SHAPE, params)
    )
    assert told(older, 2) == (200, '')
    assert told(paths['weights'], 3) == (200, '')
    assert told(paths['weights'], 3) == (200, '')
    status, text = told(older, 2)
    assert status == 409
    assert '3' in text
    assert told(folders['weights'] / ('x' * 300), 4)[0] == 400
    loop = folders['weights'] / 'v000008'
    loop.symlink_to(loop)
    for path, version, sentence in (
      (paths['elsewhere'], 4, 'is not below'),
      (f'{updates}/../elsewhere/v000003', 4, 'is not below'),
      (paths['weights'], 4, 'is not version 4'),
      (f'{updates}/v000009', 9, 'holds no complete version'),
      (f'{updates}/v000008', 8, 'v000008'),  # a loop, absent to Python 3.13
    ):
      status, text = told(path, version)
      assert status == 400
      assert sentence in text
  both = {'a': made, 'b': made}
  with (
    pytest.raises(ValueError),
    serving.opened(both, updates=updates),
  ):
    pass


def test_who_starts_a_server_is_told_how_to_ask_it():
  with serving.opened({'m': model()}, slots=1) as gateway:
    text = serving.invitation(gateway, {'m': model()})
    assert f'{gateway.address}/v1 until ^C, key {gateway.key}' in text
    assert 'm (x)' in text
    assert f"-H 'Authorization: Bearer {gateway.key}'" in text


def adapted(seed: int, rank: int = 2):
  """A run's model on the base of `model`, read from its own file."""
  one = model()
  c = lora.Lora(rank, pattern='.*')
  specs = lora.specs(c, transformer.specs(SHAPE)['layers'])
  adapter = jax.tree.map(
    lambda p: jax.random.normal(jax.random.key(seed), p.shape),
    specs,
    is_leaf=mesh.is_param,
  )
  params = lora.attach(c, one.params, adapter)
  return one._replace(params=params, step=seed)


@pytest.mark.slow
def test_adapters_on_one_base_share_it(monkeypatch):
  """Each answers as it does alone, with its own version; others are apart."""
  made = {'a': adapted(1), 'b': adapted(2), 'c': adapted(3, rank=1)}
  made |= {'plain': model()}
  monkeypatch.setattr(serving, 'load', lambda name, *_: made[name])
  models = serving.load_all({x: x for x in made})
  a, b, c, plain = (x.params for x in models.values())
  assert b['embed'] is a['embed']
  assert b['layers']['q'].w is a['layers']['q'].w
  assert b['layers']['q'].a is made['b'].params['layers']['q'].a
  assert c['embed'] is not a['embed']
  assert plain['embed'] is not a['embed']
  ask = {'token_ids': [5, 6, 7], 'sampling_params': {'temperature': 0.0}}

  def replies(models):
    with serving.opened(models, slots=2) as gateway:
      client = Client(gateway.address, gateway.key)
      out = {}
      for name in models:
        status, reply = client.post(
          'inference/v1/generate', {'model': name} | ask
        )
        assert status == 200, reply
        choice = reply['choices'][0]
        out[name] = choice['token_ids'], reply['weight_version']
      return out

  together = replies(models)
  assert together == {
    k: v for x in models for k, v in replies({x: made[x]}).items()
  }
  assert [x[1] for x in together.values()] == ['1', '2', '3', '0']
  assert together['a'][0] != together['b'][0]
