"""Every family against `transformers` itself, on small random models."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.model import hf_config, hf_weights
from agentrl.nn import decode, transformer

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

SMALL = {
  'vocab_size': 48,
  'hidden_size': 32,
  'intermediate_size': 40,
  'num_hidden_layers': 3,
  'num_attention_heads': 4,
  'num_key_value_heads': 2,
  'max_position_embeddings': 64,
  'pad_token_id': 0,
  'eos_token_id': None,
  'bos_token_id': None,
}
LLAMA3 = {
  'rope_type': 'llama3',
  'factor': 4.0,
  'low_freq_factor': 1.0,
  'high_freq_factor': 4.0,
  'original_max_position_embeddings': 32,
}
YARN = {
  'rope_type': 'yarn',
  'factor': 2.0,
  'original_max_position_embeddings': 32,
}
GEMMA = {'head_dim': 16, 'sliding_window': 5, 'query_pre_attn_scalar': 12}
# model_type, and what it differs in from SMALL
MODELS = {
  'qwen2': ('qwen2', {'tie_word_embeddings': True}),
  'qwen2_yarn_window': (
    'qwen2',
    {
      'rope_scaling': YARN,
      'use_sliding_window': True,
      'sliding_window': 5,
      'max_window_layers': 1,
    },
  ),
  'qwen3': ('qwen3', {'head_dim': 16}),
  'qwen3_bias': (
    'qwen3',
    {'head_dim': 16, 'attention_bias': True, 'rope_scaling': YARN},
  ),
  'llama': ('llama', {'rope_scaling': LLAMA3, 'rope_theta': 5e5}),
  'llama_bias': (
    'llama',
    {'attention_bias': True, 'mlp_bias': True, 'head_dim': 16},
  ),
  'gemma2': (
    'gemma2',
    {**GEMMA, 'final_logit_softcapping': 3.0, 'attn_logit_softcapping': 2.0},
  ),
  'gemma2_deep': ('gemma2', {**GEMMA, 'num_hidden_layers': 11}),
  'gemma3': (
    'gemma3_text',
    {
      **GEMMA,
      'num_hidden_layers': 7,
      'rope_scaling': {'rope_type': 'linear', 'factor': 4.0},
    },
  ),
  'qwen3_moe': (
    'qwen3_moe',
    {
      'head_dim': 16,
      'num_experts': 5,
      'num_experts_per_tok': 2,
      'moe_intermediate_size': 24,
      'norm_topk_prob': True,
    },
  ),
  'qwen3_moe_raw_weights': (
    'qwen3_moe',
    {
      'head_dim': 16,
      'num_experts': 4,
      'num_experts_per_tok': 3,
      'moe_intermediate_size': 24,
    },
  ),
}
pytestmark = pytest.mark.nightly
by_model = pytest.mark.parametrize('name', MODELS)


@functools.cache
def theirs(name: str):
  """A model with random weights, large enough that logits tell."""
  kind, fields = MODELS[name]
  config = transformers.AutoConfig.for_model(kind, **{**SMALL, **fields})
  torch.manual_seed(0)
  model = transformers.AutoModelForCausalLM.from_config(
    config, attn_implementation='eager', dtype=torch.float32
  ).eval()
  with torch.no_grad():
    for p in model.parameters():
      p.add_(0.15 * torch.randn_like(p))
  return model


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  """name -> directory that transformers wrote, in files of 50 kB at most."""

  @functools.cache
  def save(name: str):
    directory = tmp_path_factory.mktemp(name)
    theirs(name).save_pretrained(directory, max_shard_size='50KB')
    return directory

  return save


@pytest.fixture(scope='module')
def ours(saved):
  """name -> shape, parameters."""

  @functools.cache
  def load(name: str):
    shape = hf_config.shape(hf_config.read(saved(name)))
    return shape, hf_weights.read(saved(name), shape)

  return load


def their_logits(name: str, tokens) -> np.ndarray:
  with torch.no_grad():
    return theirs(name)(torch.tensor(tokens[None])).logits[0].numpy()


def our_logits(shape, params, hidden):
  head = {'embed': params['embed']} if shape.tied else params
  return transformer.logits(head, hidden, shape.logit_cap)


def sequences(seed: int, *lengths: int):
  rng = np.random.default_rng(seed)
  return [rng.integers(1, SMALL['vocab_size'], n) for n in lengths]


def close(got, want):
  np.testing.assert_allclose(got, want, atol=1e-4, rtol=1e-4)


@by_model
def test_logits_over_ragged_padded_and_packed_rows(name, ours):
  """Rows longer than the windows, two to a row, padded."""
  shape, params = ours(name)
  a, b, c = sequences(0, 13, 9, 17)
  tokens = np.zeros((2, 25), np.int32)
  seg = np.full((2, 25), -1, np.int32)
  for seq, row, start, which in ((a, 0, 0, 0), (b, 0, 13, 1), (c, 1, 0, 0)):
    tokens[row, start : start + len(seq)] = seq
    seg[row, start : start + len(seq)] = which

  @jax.jit
  def run(params, tokens, seg):
    hidden = transformer.forward(shape, params, tokens, seg)
    return our_logits(shape, params, hidden)

  got = run(params, tokens, seg)
  close(got[0, :13], their_logits(name, a))
  close(got[0, 13:22], their_logits(name, b))
  close(got[1, :17], their_logits(name, c))


@pytest.fixture(scope='module')
def decoder(ours):
  """name -> (cache, tokens [2, C], start or None) -> logits, cache."""

  @functools.cache
  def make(name: str):
    shape, params = ours(name)
    split = decode.prepare_decode_params(shape, params)

    @jax.jit
    def extend(read, chunk, start):
      hidden, read = decode.forward_with_cache(shape, split, read, chunk, start)
      return transformer.logits(split, hidden, shape.logit_cap), read

    return extend

  return make


@by_model
def test_cached_decoding_step_by_step(name, ours, decoder):
  """Slots of different length read a prompt, then token after token."""
  seqs = sequences(1, 16, 16)
  tokens = np.stack(seqs).astype(np.int32)
  want = np.stack([their_logits(name, s) for s in seqs])
  length = np.array([6, 3])
  read = decode.empty(ours(name)[0], 2, 20)
  got, read = decoder(name)(read, tokens[:, :6], None)
  close(got[0], want[0, :6])
  close(got[1, :3], want[1, :3])
  for _ in range(10):
    chunk = tokens[np.arange(2), length][:, None]
    got, read = decoder(name)(read, chunk, length.astype(np.int32))
    close(got[:, 0], want[np.arange(2), length])
    length = length + 1


@by_model
def test_greedy_generation_token_for_token(name, ours, decoder):
  prompt = np.stack(sequences(2, 6, 6))
  with torch.no_grad():
    want = theirs(name).generate(
      torch.tensor(prompt),
      attention_mask=torch.ones(2, 6, dtype=torch.long),
      max_new_tokens=14,
      do_sample=False,
    )
  read = decode.empty(ours(name)[0], 2, 20)
  logits, read = decoder(name)(read, prompt.astype(np.int32), None)
  said = [np.argmax(logits[:, -1], axis=-1)]
  for at in range(6, 19):
    token = said[-1][:, None].astype(np.int32)
    logits, read = decoder(name)(read, token, np.full(2, at, np.int32))
    said.append(np.argmax(logits[:, -1], axis=-1))
  np.testing.assert_array_equal(np.stack(said, 1), want[:, 6:])


@by_model
def test_they_read_what_we_write(name, ours, saved, tmp_path):
  """Their logits after our export, and every weight bit for bit."""
  _, params = ours(name)
  hf_weights.write(
    tmp_path, hf_config.read(saved(name)), params, file_bytes=40_000
  )
  back = transformers.AutoModelForCausalLM.from_pretrained(
    tmp_path, attn_implementation='eager'
  ).eval()
  before, after = theirs(name).state_dict(), back.state_dict()
  assert before.keys() == after.keys()
  for key, x in before.items():
    assert torch.equal(x, after[key]), key
  (tokens,) = sequences(3, 12)
  with torch.no_grad():
    got = back(torch.tensor(tokens[None])).logits[0].numpy()
  np.testing.assert_array_equal(got, their_logits(name, tokens))


@pytest.mark.parametrize('name', ['qwen3_moe', 'qwen3_moe_raw_weights'])
def test_routing_holds_what_their_balance_loss_needs(name, ours):
  shape, params = ours(name)
  (tokens,) = sequences(4, 20)
  with torch.no_grad():
    want = theirs(name)(torch.tensor(tokens[None]), output_router_logits=True)
  row = tokens[None].astype(np.int32)
  _, told = transformer.routed(shape, params, row, np.zeros_like(row))
  f = jnp.sum(told.chosen, 0) / jnp.sum(told.tokens)
  p = jnp.sum(told.prob, 0) / jnp.sum(told.tokens)
  np.testing.assert_allclose(
    shape.experts * jnp.sum(f * p), want.aux_loss.numpy(), rtol=1e-4
  )
