"""Adapters written and read back, by us and by PEFT."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy as tensors

from agentrl import mesh
from agentrl.model import hf_config, hf_weights, peft, published
from agentrl.nn import lora, transformer
from tests import errors, hostile

CONFIG = {
  'model_type': 'qwen3',
  'vocab_size': 24,
  'hidden_size': 16,
  'intermediate_size': 20,
  'num_hidden_layers': 3,
  'num_attention_heads': 4,
  'num_key_value_heads': 2,
  'head_dim': 6,
  'pad_token_id': None,
  'bos_token_id': None,
  'eos_token_id': None,
}
SHAPE = hf_config.shape(CONFIG)
EXPERTS = {
  'model_type': 'qwen3_moe',
  'num_experts': 2,
  'num_experts_per_tok': 1,
  'moe_intermediate_size': 8,
}
MIXTURE = hf_config.shape(CONFIG | EXPERTS)
HOW = lora.Lora(rank=3, alpha=12, pattern='q|o|down')


def drawn(specs, scale=0.3):
  r = np.random.default_rng(0)
  return jax.tree.map(
    lambda p: jnp.float32(scale * r.normal(size=p.shape)),
    specs,
    is_leaf=mesh.is_param,
  )


def adapter(how=HOW):
  return drawn(lora.specs(how, transformer.specs(SHAPE)['layers']))


def equal(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture
def saved(tmp_path):
  peft.write(tmp_path, SHAPE, HOW, adapter(), base='theirs/base')
  return tmp_path


def change(folder, **fields):
  """Changes fields of the adapter's config."""
  file = folder / peft.CONFIG
  file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def test_back_bit_for_bit(saved):
  how, read = peft.read(saved, SHAPE)
  equal(read, adapter())
  assert (how.rank, how.alpha) == (HOW.rank, HOW.alpha)
  layers = transformer.specs(SHAPE)['layers']
  assert set(lora.specs(how, layers)) == {'q', 'o', 'down'}
  peft.write(saved / 'again', SHAPE, how, read, base='theirs/base')
  for name in (peft.CONFIG, peft.WEIGHTS):
    assert (saved / name).read_bytes() == (saved / 'again' / name).read_bytes()


@pytest.mark.parametrize('mask', [0o022, 0o077])
def test_others_may_read_what_the_umask_lets_them(mask, tmp_path):
  """Adapters, weights and published versions, as any other file."""
  params = drawn(transformer.specs(SHAPE))
  before = os.umask(mask)
  try:
    peft.write(tmp_path / 'adapter', SHAPE, HOW, adapter())
    hf_weights.write(tmp_path / 'whole', CONFIG, params, file_bytes=4_000)
    (tmp_path / 'version').mkdir()
    published.write(tmp_path / 'version', SHAPE, params)
  finally:
    os.umask(before)
  files = [x for x in tmp_path.rglob('*') if x.is_file()]
  assert len(files) > 6
  assert {x.stat().st_mode & 0o777 for x in files} == {0o666 & ~mask}


def test_names_and_layout(saved):
  """PEFT's x A' B' is our (x a) b, matrix by matrix."""
  held, own = tensors.load_file(saved / peft.WEIGHTS), adapter()
  assert len(held) == 2 * 3 * 3
  name = 'base_model.model.model.layers.2.self_attn.o_proj.lora_{}.weight'
  a, b = (held[name.format(side)] for side in 'AB')
  assert (a.shape, b.shape) == ((3, 24), (16, 3))
  want = np.einsum('hdr,rD->Dhd', own['o']['a'][2], own['o']['b'][2])
  np.testing.assert_allclose(b @ a, want.reshape(16, 24), rtol=1e-5, atol=1e-6)
  said = json.loads((saved / peft.CONFIG).read_text())
  assert set(said['target_modules']) == {'q_proj', 'o_proj', 'down_proj'}
  assert (said['r'], said['lora_alpha']) == (3, 12)


def test_read_onto_a_mesh(saved):
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    how, read = peft.read(saved, SHAPE)
    specs = lora.specs(how, transformer.specs(SHAPE)['layers'])
    got = jax.tree.map(lambda x: x.sharding, read)
    assert got == mesh.shardings(specs)
    peft.write(saved / 'again', SHAPE, how, read)
  equal(peft.read(saved / 'again', SHAPE)[1], adapter())


@pytest.mark.parametrize('value', [True, False, None, 'gaussian', 'eva'])
def test_how_plain_lora_began_does_not_count(value, saved):
  change(saved, init_lora_weights=value)
  equal(peft.read(saved, SHAPE)[1], adapter())


@pytest.mark.parametrize(
  'value', ['pissa', 'pissa_niter_4', 'olora', 'corda', 'loftq', 'lora_ga', []]
)
def test_an_adapter_that_began_with_another_base(value, saved):
  change(saved, init_lora_weights=value)
  with errors.raises(ValueError, 'init_lora_weights'):
    peft.read(saved, SHAPE)


# What PEFT 0.21 writes beside what we write.
NONE = """
  alora_invocation_tokens arrow_config auto_mapping corda_config eva_config
  exclude_modules kasa_config layer_replication layers_pattern
  layers_to_transform lora_ga_config megatron_config modules_to_save
  monteclora_config revision target_parameters trainable_token_indices
  use_bdlora velora_config
"""
DEFAULTS = dict.fromkeys(NONE.split()) | {
  **{name: {} for name in ('alpha_pattern', 'loftq_config', 'rank_pattern')},
  **dict.fromkeys(('use_dora', 'use_qalora', 'use_rslora'), False),
  **dict.fromkeys(('ensure_weight_tying', 'lora_bias'), False),
  'ephemeral_gpu_offload': False,
  'init_lora_weights': True,
  'megatron_core': 'megatron.core',
  'peft_version': '0.21.2',
  'qalora_group_size': 16,
}


def test_read_the_fields_that_peft_writes(saved):
  change(saved, **DEFAULTS)
  equal(peft.read(saved, SHAPE)[1], adapter())


@pytest.mark.parametrize(
  'changed',
  [{'hidden_size': 20}, {'num_hidden_layers': 2}, {'num_hidden_layers': 4}],
)
def test_adapter_of_another_base(changed, saved):
  with pytest.raises(ValueError):
    peft.read(saved, hf_config.shape(CONFIG | changed))


@pytest.mark.parametrize(
  ('name', 'module'),
  [
    ('lm_head.lora_A.weight', 'lm_head'),
    ('model.embed_tokens.lora_embedding_A', 'embed_tokens'),
    ('model.layers.1.input_layernorm.weight', 'input_layernorm'),
  ],
)
def test_what_is_not_adapted_here_is_of_this_base_all_the_same(
  name, module, saved
):
  file = saved / peft.WEIGHTS
  extra = {peft.PREFIX + name: np.zeros((3, 16), np.float32)}
  tensors.save_file(tensors.load_file(file) | extra, file)
  with errors.raises(ValueError, f'{module}') as e:
    peft.read(saved, SHAPE)
  assert 'another base' not in str(e.value)


def test_experts_of_this_base_are_not_adapted_here(saved):
  file, name = saved / peft.WEIGHTS, 'model.layers.0.mlp.experts.1.up_proj'
  extra = {f'{peft.PREFIX}{name}.lora_A.weight': np.zeros((3, 16), np.float32)}
  kept = {k: v for k, v in tensors.load_file(file).items() if 'down' not in k}
  tensors.save_file(kept | extra, file)
  with errors.raises(ValueError, 'up_proj'):
    peft.read(saved, MIXTURE)


def test_torn_and_missing_files(saved, tmp_path):
  with pytest.raises(ValueError):
    peft.write(saved, SHAPE, HOW, adapter())
  file = saved / peft.WEIGHTS
  file.write_bytes(file.read_bytes()[:-9])
  with pytest.raises(ValueError):
    peft.read(saved, SHAPE)
  tensors.save_file({}, file)
  with errors.raises(ValueError, 'none'):
    peft.read(saved, SHAPE)
  with errors.raises(ValueError, 'PEFT'):
    peft.read(tmp_path / 'nowhere', SHAPE)


def test_experts_have_no_names(tmp_path):
  with errors.raises(ValueError, 'down'):
    peft.write(tmp_path, MIXTURE, HOW, adapter())


def theirs_and_ours(tmp_path):
  """The base as a model of transformers, and our parameters of it."""
  transformers = pytest.importorskip('transformers')
  params = drawn(transformer.specs(SHAPE))
  hf_weights.write(tmp_path / 'base', CONFIG, params)
  model = transformers.AutoModelForCausalLM.from_pretrained(
    tmp_path / 'base', attn_implementation='eager'
  )
  return model.eval(), params


TOKENS = np.random.default_rng(2).integers(0, 24, (2, 9)).astype(np.int32)


def their_logits(model):
  torch = pytest.importorskip('torch')
  with torch.no_grad():
    return model(torch.tensor(TOKENS, dtype=torch.long)).logits.numpy()


def our_logits(params):
  hidden = transformer.forward(SHAPE, params, TOKENS, np.zeros_like(TOKENS))
  return transformer.logits(params, hidden)


def test_peft_loads_ours(tmp_path):
  pytest.importorskip('torch')
  library = pytest.importorskip('peft')
  model, params = theirs_and_ours(tmp_path)
  plain = their_logits(model)
  peft.write(tmp_path / 'adapter', SHAPE, HOW, adapter())
  model = library.PeftModel.from_pretrained(model, str(tmp_path / 'adapter'))
  theirs = their_logits(model.eval())
  attached = lora.attach(HOW, params, adapter())
  np.testing.assert_allclose(our_logits(attached), theirs, atol=1e-4, rtol=1e-4)
  assert np.max(np.abs(theirs - plain)) > 0.1
  hf_weights.write(tmp_path / 'merged', CONFIG, lora.merge(attached))
  transformers = pytest.importorskip('transformers')
  merged = transformers.AutoModelForCausalLM.from_pretrained(
    tmp_path / 'merged', attn_implementation='eager'
  )
  np.testing.assert_allclose(their_logits(merged), theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize('modules', [['q_proj', 'v_proj'], 'all-linear'])
def test_we_load_pefts(modules, tmp_path):
  torch = pytest.importorskip('torch')
  library = pytest.importorskip('peft')
  model, params = theirs_and_ours(tmp_path)
  torch.manual_seed(0)
  model = library.get_peft_model(
    model,
    library.LoraConfig(
      r=4,
      lora_alpha=8,
      target_modules=modules,
      lora_dropout=0.1,
      init_lora_weights=False,  # both sides random
      task_type='CAUSAL_LM',
    ),
  ).eval()
  model.save_pretrained(tmp_path / 'adapter')
  how, read = peft.read(tmp_path / 'adapter', SHAPE)
  assert (how.rank, how.alpha) == (4, 8)
  assert len(read) == (2 if len(modules) == 2 else 7)
  np.testing.assert_allclose(
    our_logits(lora.attach(how, params, read)),
    their_logits(model),
    atol=1e-4,
    rtol=1e-4,
  )


def some_layers(folder, kept, **fields):
  """Takes the tensors of other layers out of an adapter of q, o and down."""
  held = tensors.load_file(folder / peft.WEIGHTS)
  held = {
    name: x
    for name, x in held.items()
    if any(f'.layers.{layer}.' in name for layer in kept)
  }
  tensors.save_file(held, folder / peft.WEIGHTS)
  change(folder, **fields)


@pytest.mark.parametrize(
  ('kept', 'fields'),
  [
    ([1, 2], {'layers_to_transform': [1, 2], 'layers_pattern': 'layers'}),
    ([1], {'layers_to_transform': 1, 'layers_pattern': None}),
    ([0], {'target_modules': r'model\\.layers\\.0\\..*(q|o|down)_proj'}),
    ([2], {'layers_to_transform': [2], 'target_modules': 'all-linear'}),
    (
      [1],
      {
        'target_modules': [
          'model.layers.1.self_attn.q_proj',
          'layers.1.self_attn.o_proj',
          'layers.1.mlp.down_proj',
        ]
      },
    ),
  ],
)
def test_an_adapter_of_some_layers_is_nothing_in_the_others(
  saved, kept, fields
):
  some_layers(saved, kept, **fields)
  how, read = peft.read(saved, SHAPE)
  mask = np.isin(np.arange(SHAPE.layers), kept)

  def zeroed(x):
    return np.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, 0)

  equal(read, jax.tree.map(zeroed, adapter()))
  peft.check(saved, SHAPE, lora.Lora(3, 12, how.pattern))


def test_a_layer_that_its_config_adapts_must_be_there(saved):
  some_layers(saved, [0, 1])
  with errors.raises(ValueError, 'layers.2'):
    peft.read(saved, SHAPE)
  some_layers(saved, [0, 1], layers_to_transform=[0])
  with errors.raises(ValueError, 'layers.1'):
    peft.read(saved, SHAPE)


@pytest.mark.parametrize(
  ('field', 'value'),
  [
    ('peft_type', 'IA3'),
    ('use_dora', True),
    ('use_rslora', True),
    ('bias', 'all'),
    ('modules_to_save', ['lm_head']),
    ('rank_pattern', {'q_proj': 8}),
    ('alpha_pattern', {'q_proj': 8}),
    ('layer_replication', [[0, 2]]),
    ('trainable_token_indices', [1]),
    ('r', 0),
    ('lora_alpha', float('nan')),
    ('layers_to_transform', [0, -1]),
    ('layers_to_transform', ['0']),
    ('target_modules', [1]),
  ],
)
def test_what_is_not_plain_is_refused_by_its_name(saved, field, value):
  change(saved, **{field: value})
  name = 'NaN' if value != value else field
  with errors.raises(ValueError, name):
    peft.read(saved, SHAPE)


def test_every_value_of_its_config_is_read_or_refused(saved):
  whole = json.loads((saved / peft.CONFIG).read_text())
  whole |= {'layers_to_transform': [0, 1, 2], 'use_dora': False}
  for place, value, text in hostile.mutations(whole):
    (saved / peft.CONFIG).write_text(text)
    try:
      how, _ = peft.read(saved, SHAPE)
    except ValueError:
      continue
    assert how.rank == HOW.rank, (place, value)


@pytest.mark.parametrize('number', [np.nan, np.inf])
def test_an_adapter_that_is_not_finite_is_refused(saved, number):
  held = tensors.load_file(saved / peft.WEIGHTS)
  name = sorted(held)[0]
  held[name][0, 0] = number
  tensors.save_file(held, saved / peft.WEIGHTS)
  with errors.raises(ValueError, name):
    peft.read(saved, SHAPE)
