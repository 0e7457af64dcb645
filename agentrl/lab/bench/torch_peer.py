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
import tempfile
import time

os.environ.setdefault('HF_HUB_OFFLINE', '1')
os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')

END = 1  # an id that is never drawn where messages have a given length


def main():
  parser = argparse.ArgumentParser()
  sizes = 'vocab width layers heads kv_heads head_dim mlp batch prompt new'
  for name in f'{sizes} group rows tokens micro rank repeats'.split():
    parser.add_argument(f'--{name}', type=int, required=True)
  args = parser.parse_args()
  import torch

  torch.set_num_threads(len(os.sched_getaffinity(0)))
  torch.manual_seed(0)
  out = {'decode': decode(args), 'gradient': gradient(model(args), args)}
  if importlib.util.find_spec('peft'):
    out['gradient_lora'] = gradient(adapted(args), args)
  if importlib.util.find_spec('trl'):
    out['iteration'] = iteration(args)
  print(json.dumps(out), flush=True)


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
  return transformers.LlamaForCausalLM(config).to(torch.float32)


def adapted(args):
  """Builds the decoder with an adapter on its attention, the rest frozen."""
  import peft

  targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj']
  config = peft.LoraConfig(
    r=args.rank, lora_alpha=16, target_modules=targets, task_type='CAUSAL_LM'
  )
  return peft.get_peft_model(model(args), config)


def median(call, repeats: int) -> float:
  """Returns the median seconds of a call, after a first one."""
  call()
  seconds = []
  for _ in range(repeats):
    start = time.perf_counter()
    call()
    seconds.append(time.perf_counter() - start)
  return statistics.median(seconds)


def decode(args) -> float:
  """Returns new tokens per second, with their prefill."""
  import torch
  import transformers

  decoder = model(args).eval()
  ids = torch.randint(3, args.vocab, (args.batch, args.prompt))
  mask = torch.ones_like(ids)
  config = transformers.GenerationConfig(
    max_new_tokens=args.new,
    min_new_tokens=args.new,
    do_sample=True,
    top_k=0,
    top_p=1.0,
    pad_token_id=0,
    eos_token_id=END,
  )

  def call():
    with torch.inference_mode():
      decoder.generate(ids, attention_mask=mask, generation_config=config)

  return args.batch * args.new / median(call, args.repeats)


def gradient(decoder, args) -> float:
  """Returns seconds of a step on full rows: micro-batches, then Adam."""
  import torch

  decoder = decoder.train()
  trained = [x for x in decoder.parameters() if x.requires_grad]
  rule = torch.optim.AdamW(trained, lr=1e-6, fused=True)
  rows = torch.randint(3, args.vocab, (args.rows, args.tokens))
  count = args.rows * (args.tokens - 1)

  def call():
    rule.zero_grad(set_to_none=True)
    for i in range(0, args.rows, args.micro):
      part = rows[i : i + args.micro]
      logits = decoder(input_ids=part, use_cache=False).logits[:, :-1]
      loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, args.vocab), part[:, 1:].reshape(-1), reduction='sum'
      )
      (loss / count).backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    rule.step()

  return median(call, args.repeats)


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
    bf16=False,
    fp16=False,
    use_cpu=True,
    gradient_checkpointing=False,
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
