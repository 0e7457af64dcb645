"""The cases of `peers` by torch, transformers, PEFT and TRL.

  PYTHON torch_peer.py --vocab=49152 --width=576 ... --batch=16

Run by a Python that has torch, and imports nothing of ours. It prints one JSON
object; what its Python has no library for is left out of it. Adapters need
`peft`, an iteration needs `trl`.
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time

# Files beside this one have names of Python's own modules, such as profile.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [x for x in sys.path if os.path.abspath(x or '.') != _HERE]
os.environ.setdefault('HF_HUB_OFFLINE', '1')
os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')

END = 1  # an id that is never drawn where messages have a given length


def main():
  parser = argparse.ArgumentParser()
  sizes = 'vocab width layers heads kv_heads head_dim mlp batch prompt new'
  for name in f'{sizes} group rows tokens micro rank repeats'.split():
    parser.add_argument(f'--{name}', type=int, required=True)
  parser.add_argument('--device', default='cpu', help='cuda: in bfloat16')
  parser.add_argument('--only', default='', help='one figure; default: all')
  parser.add_argument('--block', type=int, default=0, help='tokens of logits')
  parser.add_argument('--compiled', type=int, default=0, help='1: the gradient')
  args = parser.parse_args()
  import torch

  torch.set_num_threads(len(os.sched_getaffinity(0)))
  torch.manual_seed(0)
  figures = {
    'decode': ('', lambda: decode(args)),
    'gradient': ('', lambda: gradient(model(args), args)),
    'gradient_lora': ('peft', lambda: gradient(adapted(args), args)),
    'iteration': ('trl', lambda: iteration(args)),
  }
  out = {}
  for name, (library, figure) in figures.items():
    there = not library or importlib.util.find_spec(library)
    if there and args.only in ('', name):
      out[name] = figure()
  print(json.dumps(out), flush=True)


def on_card(args) -> bool:
  return args.device != 'cpu'


def model(args):
  """Builds a random decoder of these sizes."""
  import torch
  import transformers

  config = transformers.LlamaConfig(
    vocab_size=args.vocab,
    hidden_size=args.width,
    num_hidden_layers=args.layers,
    num_attention_heads=args.heads,
    num_key_value_heads=args.kv_heads,
    head_dim=args.head_dim,
    intermediate_size=args.mlp,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    bos_token_id=None,
    eos_token_id=END,
    pad_token_id=0,
    attn_implementation='sdpa',
  )
  return transformers.LlamaForCausalLM(config).to(args.device, torch.float32)


def adapted(args):
  """Builds the decoder with an adapter on its attention, the rest frozen."""
  import peft

  targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj']
  config = peft.LoraConfig(
    r=args.rank, lora_alpha=16, target_modules=targets, task_type='CAUSAL_LM'
  )
  return peft.get_peft_model(model(args), config)


def median(call, args) -> float:
  """Returns the median seconds of a call, after two, the first compiles."""
  import torch

  wait = torch.cuda.synchronize if on_card(args) else lambda: None
  call(), call(), wait()
  seconds = []
  for _ in range(args.repeats):
    start = time.perf_counter()
    call()
    wait()
    seconds.append(time.perf_counter() - start)
  return statistics.median(seconds)


def decode(args) -> float:
  """Returns new tokens per second, with their prefill."""
  import torch
  import transformers

  decoder = model(args).eval()
  if on_card(args):
    decoder = decoder.to(torch.bfloat16)
  shape = args.batch, args.prompt
  ids = torch.randint(3, args.vocab, shape, device=args.device)
  mask = torch.ones_like(ids)
  config = transformers.GenerationConfig(
    max_new_tokens=args.new,
    min_new_tokens=args.new,
    do_sample=True,
    top_k=0,
    top_p=1.0,
    pad_token_id=0,
    eos_token_id=END,
    cache_implementation='static' if on_card(args) else None,
  )

  def call():
    with torch.inference_mode():
      decoder.generate(ids, attention_mask=mask, generation_config=config)

  return args.batch * args.new / median(call, args)


def gradient(decoder, args) -> float:
  """Returns seconds of a step on full rows: micro-batches, then Adam."""
  import torch

  decoder = decoder.train()
  trained = [x for x in decoder.parameters() if x.requires_grad]
  rule = torch.optim.AdamW(trained, lr=1e-6, fused=True)
  shape = args.rows, args.tokens
  rows = torch.randint(3, args.vocab, shape, device=args.device)
  count = args.rows * (args.tokens - 1)
  half = torch.autocast(args.device, torch.bfloat16, enabled=on_card(args))
  total = blockwise(decoder, args) if args.block else whole(decoder)

  def call():
    rule.zero_grad(set_to_none=True)
    for i in range(0, args.rows, args.micro):
      with half:
        loss = total(rows[i : i + args.micro])
      (loss / count).backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    rule.step()

  return median(call, args)


def whole(decoder):
  """Returns what sums the losses of rows, of all logits at once."""
  import torch

  def total(part):
    logits = decoder(input_ids=part, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
      logits.flatten(0, 1), part[:, 1:].flatten(), reduction='sum'
    )

  return total


def blockwise(decoder, args):
  """Runs as `whole`, on `args.block` tokens at once, recomputed backwards."""
  import torch
  from torch.utils.checkpoint import checkpoint

  def words(hidden, target):
    logits = decoder.lm_head(hidden).float()
    return torch.nn.functional.cross_entropy(logits, target, reduction='sum')

  body = decoder.model
  if args.compiled:
    body, words = torch.compile(body), torch.compile(words)

  def total(part):
    hidden = body(input_ids=part, use_cache=False).last_hidden_state
    hidden, target = hidden[:, :-1].flatten(0, 1), part[:, 1:].flatten()
    blocks = zip(
      hidden.split(args.block), target.split(args.block), strict=True
    )
    return sum(checkpoint(words, *x, use_reentrant=False) for x in blocks)

  return total


def iteration(args) -> float:
  """Returns seconds of TRL's GRPO step: sampling, reward, one update."""
  import datasets
  import numpy as np
  import tokenizers
  import transformers
  import trl

  words = {'<pad>': 0, '<eos>': END, '<unk>': 2}
  words |= {f'w{i}': i for i in range(3, args.vocab)}
  inner = tokenizers.Tokenizer(
    tokenizers.models.WordLevel(words, unk_token='<unk>')
  )
  inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=inner,
    pad_token='<pad>',
    eos_token='<eos>',
    unk_token='<unk>',
    padding_side='left',
  )
  rng = np.random.default_rng(0)
  prompts = rng.integers(3, args.vocab, (256, args.prompt))
  data = datasets.Dataset.from_dict(
    {'prompt': [' '.join(f'w{i}' for i in row) for row in prompts]}
  )
  seconds, last = [], [time.perf_counter()]

  class Clock(transformers.TrainerCallback):
    def on_step_end(self, *args, **options):
      now = time.perf_counter()
      seconds.append(now - last[0])
      last[0] = now

  def reward(completions, **options):
    return [len(set(x.split())) / args.new for x in completions]

  config = trl.GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=args.batch,
    num_generations=args.group,
    max_completion_length=args.new,
    max_steps=args.repeats + 1,
    learning_rate=1e-6,
    beta=0.0,
    report_to=[],
    save_strategy='no',
    bf16=on_card(args),
    fp16=False,
    use_cpu=not on_card(args),
    gradient_checkpointing=on_card(args),
    generation_kwargs={'min_new_tokens': args.new},
    disable_tqdm=True,
    seed=0,
  )
  trainer = trl.GRPOTrainer(
    model=model(args).train(),
    reward_funcs=reward,
    args=config,
    train_dataset=data,
    processing_class=tokenizer,
    callbacks=[Clock()],
  )
  trainer.train()
  return statistics.median(seconds[1:])


if __name__ == '__main__':
  main()
