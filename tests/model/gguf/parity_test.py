"""GGUF files read here, and by `transformers` with its own reader."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.model import hf_config, hf_weights
from agentrl.nn import transformer

torch = pytest.importorskip('torch')
pytest.importorskip('accelerate')
transformers = pytest.importorskip('transformers')
pytest.importorskip('gguf')
from tests.model.gguf.folder_test import (  # noqa: E402
  VOCAB,
  cache,  # noqa: F401  a fixture
  written,
)

pytestmark = pytest.mark.nightly
# transformers leaves the rotary scaling out of every file; it is put back.
MODELS = ('llama', 'llama_bias', 'qwen2', 'qwen3', 'gemma3')


@pytest.mark.parametrize('kind', ['F32', 'Q4_0', 'Q8_0', 'BF16'])
@pytest.mark.parametrize('name', MODELS)
def test_logits_are_those_of_transformers(name, kind, tmp_path):
  path, _, _ = written(tmp_path, name, kind)
  folder = hf_weights.locate(str(path))
  config = transformers.AutoConfig.from_pretrained(folder)
  theirs = transformers.AutoModelForCausalLM.from_pretrained(
    tmp_path, gguf_file=path.name, config=config, dtype=torch.float32
  ).eval()
  tokens = np.random.default_rng(0).integers(1, VOCAB, size=40)
  with torch.no_grad():
    want = theirs(torch.tensor(tokens[None])).logits[0].numpy()
  shape = hf_config.shape(hf_config.read(folder))
  params = hf_weights.read(folder, shape)
  seg = jnp.zeros((1, len(tokens)), jnp.int32)
  hidden = transformer.forward(shape, params, tokens[None], seg)
  got = transformer.logits(params, hidden, shape.logit_cap)[0]
  np.testing.assert_allclose(got, want, atol=1e-4, rtol=1e-4)
