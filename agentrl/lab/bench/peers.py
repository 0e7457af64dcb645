"""Compares other libraries with ours, interleaved, at one size.

Each has a script that prints JSON objects, run by a Python that has the
library: its own process, its own threads. That of torch, transformers, PEFT and
TRL is here (torch_peer.py) and takes any size; scripts of a folder measure at
the size `sampling.FULL`.
"""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

# Figures in tokens a second; all others are in seconds.
RATES = ('decode',)


class Peer(NamedTuple):
  """A library, and where its script prints what ours is compared with.

  figures: ours -> its key; 'decode' is new tokens per second with their
    prefill, 'gradient' and 'gradient_lora' seconds of a step on full rows,
    'iteration' seconds of a whole GRPO iteration
  """

  script: str
  args: tuple[str, ...]
  figures: Mapping[str, str]
  note: str


PEERS = {
  'torch': Peer(
    'torch_peer.py',
    (),
    {x: x for x in ('decode', 'gradient', 'gradient_lora', 'iteration')},
    'its decode returns no log-probs; iteration is of TRL, without a reference',
  ),
  'tunix': Peer(
    'bench_tunix.py',
    ('--cache', '0'),
    {
      'decode': 'end_to_end_tokens_per_s',
      'iteration': 'full_step_s_median_after_2',
    },
    'its iteration also reads a reference model',
  ),
  'trl': Peer(
    'bench_trl.py',
    ('--threads', str(os.cpu_count())),
    {
      'decode': 'decode_tok_s_incl_prefill',
      'iteration': 'grpo_step_s_median_after_first',
    },
    'its decode returns no log-probs; no reference model',
  ),
}
OWN = pathlib.Path(__file__).with_name('torch_peer.py')


def script(name: str, folder: str) -> str:
  """Returns the path of a peer's script."""
  own = PEERS[name].script == OWN.name
  return str(OWN) if own else os.path.join(folder, PEERS[name].script)


def missing(folder: str, pythons: Mapping[str, str]) -> dict[str, str]:
  """Returns {peer: why it is skipped}, one sentence each."""
  out = {}
  for name, peer in PEERS.items():
    path = script(name, folder)
    if not pythons.get(name):
      out[name] = (
        f'{name} is skipped: --{name}_python is not given; name a Python that'
        f' has {name}'
      )
    elif not os.path.exists(pythons[name]):
      out[name] = (
        f'{name} is skipped: --{name}_python={pythons[name]} does not exist'
      )
    elif not os.path.exists(path):
      out[name] = (
        f'{name} is skipped: {path} does not exist; set --peers to the folder'
        f' that holds {peer.script}'
      )
  return out


def compare(
  folder: str,
  pythons: Mapping[str, str],
  ours: Callable[[], Mapping[str, float]],
  rounds: int,
  *,
  sizes: Mapping[str, int],
  tell: Callable[[str], None] = print,
) -> dict[str, dict]:
  """Runs ours, each peer, ours, each peer...: {peer: {what: measured}}.

  Args:
    pythons: {peer: path of its Python}
    ours: () -> figure of each name of a `Peer`
    sizes: flags of torch_peer.py
  Returns: for each figure, the lists `ours` and `theirs` over the rounds, and
    `faster`: how many times faster ours was, median, lowest and highest
  """
  skipped = missing(folder, pythons)
  for sentence in skipped.values():
    tell(sentence)
  names = [name for name in PEERS if name not in skipped]
  seen: dict[str, dict[str, list]] = {name: {} for name in names}
  for i in range(rounds if names else 0):
    own = ours()
    for name in names:
      path, peer = script(name, folder), PEERS[name]
      args = (
        [f'--{x}={n}' for x, n in sizes.items()] if path == str(OWN) else []
      )
      result = run([pythons[name], path, *peer.args, *args])
      if result is None:
        tell(f'{name} failed in this round; run {path} by itself to see why')
        continue
      pairs = {
        x: (own[x], result[y]) for x, y in peer.figures.items() if y in result
      }
      for what, pair in pairs.items():
        seen[name].setdefault(what, []).append(pair)
      text = [
        f'{x} {a:.4g} {_unit(x)}, {name} {b:.4g}' for x, (a, b) in pairs.items()
      ]
      tell(f'round {i + 1}: {"; ".join(text)}')
  return {
    name: {what: _faster(what, pairs) for what, pairs in figures.items()}
    for name, figures in seen.items()
    if figures
  }


def _unit(what: str) -> str:
  return 'tokens/s' if what in RATES else 's'


def _faster(what: str, pairs) -> dict:
  ours, theirs = np.array(pairs).T
  ratio = ours / theirs if what in RATES else theirs / ours
  low, median, high = np.quantile(ratio, (0, 0.5, 1)).tolist()
  faster = {'median': median, 'low': low, 'high': high}
  return {'ours': ours.tolist(), 'theirs': theirs.tolist(), 'faster': faster}


def run(command: list[str]) -> dict | None:
  """Runs a script and merges the JSON objects it prints; None if it fails."""
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    sys.stderr.write(done.stderr[-2000:])
    return None
  out: dict = {}
  for one in objects(done.stdout):
    out |= one
  return out


def objects(text: str) -> Iterator[dict]:
  """Reads JSON objects that begin a line of the text; passes over the rest."""
  decoder, at = json.JSONDecoder(), 0
  while at < len(text):
    if text[at] == '{':
      try:
        one, at = decoder.raw_decode(text, at)
        yield one
      except json.JSONDecodeError:
        pass
    newline = text.find('\n', at)
    at = len(text) if newline < 0 else newline + 1


def table(measured: Mapping[str, dict]) -> list[str]:
  """Returns lines to print."""
  lines = []
  for name, kinds in measured.items():
    for what, x in kinds.items():
      f, unit = x['faster'], _unit(what)
      lines.append(
        f'{what:<14} {f["median"]:.2f} times {name}'
        f' [{f["low"]:.2f}, {f["high"]:.2f}] over {len(x["ours"])} round(s);'
        f' ours {np.median(x["ours"]):.4g} {unit},'
        f' {name} {np.median(x["theirs"]):.4g} {unit}'
      )
    lines.append(f'               ({name}: {PEERS[name].note})')
  return lines
