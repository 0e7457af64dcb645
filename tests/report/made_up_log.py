"""A log of trajectories that nobody played: every view has something to show.

Step 1 holds group 0, four walks of a Sokoban level, two of which branch off
the first; the same task is there again at step 9. One observation of step 5
is hostile.
"""

import numpy as np

from agentrl.log import trajectories

HOSTILE = (
  '<script>document.title="hacked"</script>'
  '<img src=x onerror=\'document.title="hacked"\'>'
  '</pre></script><b id="bold">not bold</b>\n'
  '\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202erevird\u202c \x00\u200b'
  'javascript:alert(1) &lt;i&gt; @STYLE@ \ud83d\ude00\n'
)
LONG = 'x' * 30_000
BOARDS = (
  '######\n#__P_#\n#_X__#\n#____#\n#_O__#\n######\n',
  '######\n#_P__#\n#_X__#\n#____#\n#_O__#\n######\n',
  '######\n#____#\n#_P__#\n#_X__#\n#_O__#\n######\n',
  '######\n#____#\n#____#\n#_P__#\n#_*__#\n######\n',
)
WORDS = {'left': 1, 'down': 2, 'up': 0, 'right': 0}
THOUGHTS = {
  'left': ('get', ' above', ' it'),
  'down': ('now', ' push', ' it'),
  'up': ('look', ' around', ' first'),
  'right': ('go', ' the other', ' way'),
}


def turn(k: int, node: int, word: str, values, text: str | None = None):
  """A turn that says `word`; values: PRM step reward, advantage, value."""
  prm, advantage, value = values
  thought = THOUGHTS.get(word, ('do', ' some', ' harm'))
  pieces = ['<think>', *thought, '</think>', word, '<eot>']
  n = len(pieces)
  wave = np.sin(np.arange(n) + node)
  read = BOARDS[min(k, 3)] if text is None else text
  return {
    'k': k,
    'node': node,
    'state': 100 + k,
    'agent': 0,
    'version': 0,
    'read': {'text': read, 'tokens': list(range(len(read[:40])))},
    'said': {
      'text': ''.join(pieces),
      'who': 'policy',
      'tokens': list(range(40, 40 + n)),
      'pieces': pieces,
      'span': [1] * (n - 2) + [2, 0],
    },
    'reward': -0.1 if k < 2 else 0.9,
    'scored': True,
    'terms': {'env': -0.1, 'entropy': 0.4, 'tokens': float(n), 'invalid': 0.0},
    'signals': {
      'advantage': advantage,
      'implicit_prm.step': prm,
      'target.value': value,
    },
    'token': {
      'logp': np.round(-np.abs(wave), 4).tolist(),
      'implicit_prm.token': np.round(prm * wave / n, 5).tolist(),
      'advantage': [advantage] * n,
    },
  } | ({'judged': JUDGED} if k == 1 else {})


# Of a turn: one judge that answered, one that did not.
JUDGED = [
  {
    'judge': 'number',
    'term': 'judged',
    'score': 0.5,
    'questions': [{'prompt': 'How <b>good</b>?', 'answer': 'half'}],
  },
  {'judge': 'grade', 'term': 'style', 'score': 'nan', 'fault': 'it is late'},
]


def trajectory(step: int, member: int, turns, *, task=3, group=0, phase='rl'):
  solved = turns[-1]['said']['text'].endswith('down<eot>') and len(turns) > 2
  return {
    'phase': phase,
    'step': step,
    'task': task,
    'group': group,
    'member': member,
    'status': 'solved' if solved else 'turn_limit',
    'outcome': float(solved),
    'reward': sum(x['reward'] for x in turns),
    'ids': {'source': 0, 'arm': 0},
    'signals': {},
    'turns': turns,
  }


def walk(words, nodes, shift: float = 0.0):
  return [
    turn(k, node, word, (0.3 * WORDS[word] - 0.4 + shift, k - 1.2, 0.2 * k))
    for k, (word, node) in enumerate(zip(words, nodes, strict=True))
  ]


def swapped(turns):
  """The same by version 3, which 4 and 5 follow within the last message."""
  n = len(turns[-1]['said']['tokens'])
  each = [3] * (n - 3) + [4, 5, 5]
  turns = [{**x, 'version': 3} for x in turns]
  turns[-1]['said'] = {**turns[-1]['said'], 'version': each}
  return turns


def group(step: int, shift: float = 0.0, *, branched: bool = True):
  """Members 1 and 2 repeat turns of member 0 if branched; 3 is alone."""
  a, b = ([0, 1], [0]) if branched else ([10, 11], [20])
  paths = (
    (('left', 'down', 'down'), (0, 1, 2)),
    (('left', 'down', 'up', 'right'), (*a, 12, 13)),
    (('left', 'right', 'down'), (*b, 21, 22)),
    (('up', 'up'), (30, 31)),
  )
  for member, (words, nodes) in enumerate(paths):
    yield trajectory(step, member, walk(words, nodes, shift))


def write(folder) -> None:
  """The log of a made-up run."""
  w = trajectories.TrajectoryWriter(folder, resume_after=None)
  for t in group(1):
    w.write(t)
  evil = turn(0, 50, '<b>bold</b>', (0.1, 0.2, 0.3), HOSTILE + LONG)
  w.write(trajectory(5, 0, [evil], task=4, group=7))
  for t in group(9, 0.3, branched=False):
    w.write(t)
  held = walk(('left', 'down', 'down'), (0, 1, 2), 0.3)
  held = swapped(held)
  w.write(trajectory(9, 0, held, task=21, phase='eval'))
  w.close()
