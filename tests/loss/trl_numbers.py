"""Numbers of TRL's own losses over pairs, for tests where there is no TRL.

  python -m tests.loss.trl_numbers  # writes trl_numbers.json beside this file

needs `pip install -e '.[parity]'`, and neither JAX nor a model: TRL's functions
are given log-probs of tokens in place of a network's.
"""

import collections
import importlib.metadata
import json
import pathlib
import types

import numpy as np

FILE = pathlib.Path(__file__).with_suffix('.json')
PAIRS, LONGEST = 5, 7
# Our loss and its settings -> what TRL calls it.
CASES = {
  'sigmoid': ('dpo', {'beta': 0.3}),
  'sigmoid_norm': ('dpo', {'beta': 2.0, 'per': 'mean'}),
  'cdpo': ('dpo', {'beta': 0.3, 'smoothing': 0.2}),
  'ipo': ('ipo', {'beta': 0.7, 'per': 'mean'}),
  'orpo': ('orpo', {'odds': 0.6}),
  'simpo': ('simpo', {'beta': 1.5, 'target': 0.4}),
  'kto': ('kto', {'beta': 0.4, 'win': 1.3, 'lose': 0.6}),
}


def drawn() -> dict:
  """Log-probs of the tokens of winners, then of losers: [2 P][n]."""
  r = np.random.default_rng(7)
  size = r.integers(1, LONGEST + 1, 2 * PAIRS)
  logp = [(-0.05 - np.abs(r.normal(size=n))).tolist() for n in size]
  ref = [
    (np.minimum(np.array(x) + 0.5 * r.normal(size=len(x)), -0.01)).tolist()
    for x in logp
  ]
  return {'logp': logp, 'ref_logp': ref}


def made() -> dict:
  """What the file holds: inputs, and value and gradient of each loss."""
  import torch

  given = drawn()
  size = np.array([len(x) for x in given['logp']])
  mask = torch.tensor(np.arange(LONGEST) < size[:, None])

  def padded(rows):
    return torch.tensor([[*x, *[0.0] * (LONGEST - len(x))] for x in rows])

  torch.set_default_dtype(torch.float64)
  ref = padded(given['ref_logp'])
  out = {'trl': importlib.metadata.version('trl'), **given, 'losses': {}}
  for name, (_, hp) in CASES.items():
    logp = padded(given['logp']).requires_grad_()
    value = _value(name, hp, logp, ref, mask)
    value.backward()
    grad = [x[:n].tolist() for x, n in zip(logp.grad, size, strict=True)]
    out['losses'][name] = {'value': value.item(), 'grad': grad}
  return out


def _value(name, hp, logp, ref, mask):
  """Returns the mean over pairs of TRL's loss of these tokens."""
  if name in ('sigmoid', 'sigmoid_norm', 'ipo'):
    return _dpo(name, hp, logp, ref, mask)
  if name == 'kto':
    return _kto(hp, logp, ref, mask)
  if name == 'orpo':
    return _orpo(hp, logp, mask)
  return _cpo(name, hp, logp, ref, mask)


def _trainer(**fields):
  """What TRL's functions read of a trainer."""
  alone = lambda x: x  # noqa: E731
  device = types.SimpleNamespace(
    device='cpu', gather=alone, gather_for_metrics=alone
  )
  return types.SimpleNamespace(
    accelerator=device,
    model=types.SimpleNamespace(training=False),
    aux_loss_enabled=False,
    precompute_ref_logps=True,
    _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
    _total_train_tokens=0,
    **fields,
  )


def _network(logp):
  """What a model with TRL's fused head says of each token but the first."""
  import torch

  nothing = torch.zeros_like(logp.detach())
  said = types.SimpleNamespace(
    log_probs=logp,
    entropy=nothing,
    mean_logits=nothing,
    is_top1=nothing > 0,
  )
  return lambda **_: said


def _completions(mask) -> dict:
  """Token ids of prompts of one token and completions, with their masks."""
  import torch

  completion = torch.nn.functional.pad(mask.long(), (1, 0))
  whole = torch.ones_like(completion)
  return {
    'input_ids': whole,
    'attention_mask': whole,
    'completion_mask': completion,
  }


def _dpo(name, hp, logp, ref, mask):
  from trl import DPOTrainer

  trainer = _trainer(
    beta=hp['beta'],
    f_divergence_type='reverse_kl',
    ld_alpha=None,
    loss_types=[name],
    loss_weights=[1.0],
    use_weighting=False,
  )
  win, lose = ref.sum(dim=1).chunk(2)
  given = {'ref_chosen_logps': win, 'ref_rejected_logps': lose}
  inputs = _completions(mask) | given
  return DPOTrainer._compute_loss(trainer, _network(logp), inputs, False)


def _kto(hp, logp, ref, mask):
  """Its reference point is over these completions, as ours is."""
  import torch
  from trl import KTOTrainer

  trainer = _trainer(
    beta=hp['beta'],
    calculate_KL=True,
    desirable_weight=hp['win'],
    undesirable_weight=hp['lose'],
    loss_type='kto',
    _compute_kl_logps=lambda *_: logp.sum(dim=1),
  )
  inputs = _completions(mask) | {
    'label': torch.arange(2 * PAIRS) < PAIRS,
    'ref_logps': ref.sum(dim=1),
    'ref_KL_logps': ref.sum(dim=1),
  }
  return KTOTrainer._compute_loss(trainer, _network(logp), inputs, False)


def _orpo(hp, logp, mask):
  """Its likelihood is a mean over all tokens: here one over each winner's."""
  from trl.experimental.orpo import ORPOTrainer

  mean = logp.sum(dim=1) / mask.sum(dim=1)
  win, lose = mean.chunk(2)
  trainer = _trainer(beta=hp['odds'])
  ratio, *_ = ORPOTrainer.odds_ratio_loss(trainer, win, lose)
  return -win.mean() - ratio.double().mean()


def _cpo(name, hp, logp, ref, mask):
  """SimPO, and DPO of labels that may be wrong, of log-ratios."""
  from trl.experimental.cpo import CPOTrainer

  mean = logp.sum(dim=1) / mask.sum(dim=1)
  of = mean if name == 'simpo' else (logp - ref).sum(dim=1)
  trainer = _trainer(
    alpha=0.0,
    beta=hp['beta'],
    label_smoothing=hp.get('smoothing', 0.0),
    loss_type='simpo' if name == 'simpo' else 'sigmoid',
    simpo_gamma=hp.get('target', 0.0),
  )
  losses, *_ = CPOTrainer.cpo_loss(trainer, *of.chunk(2))
  return losses.mean()


if __name__ == '__main__':
  FILE.write_text(json.dumps(made(), indent=1) + '\n')
