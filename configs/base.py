"""What every experiment has: the defaults that run on two CPU cores.

A method's config names a piece for every slot; `finish` then writes every
hyper-parameter of these pieces into `c.hp`, so that each can be overridden:

  --config=configs/oprl.py:tiny --config.hp.signal.implicit_prm.beta=0.1

Arguments after the colon, separated by commas: `tiny` shrinks everything to
a smoke test of under two minutes; `env=frozen_lake` changes the environment;
`judge` has a service say what the last message of a host environment is worth.
"""

from ml_collections import ConfigDict

import agentrl.advantage
import agentrl.collect
import agentrl.curate
import agentrl.loss
import agentrl.memory
import agentrl.plan
import agentrl.reward
import agentrl.rollout.pieces
import agentrl.signal
import agentrl.task  # noqa: F401  all of these register their pieces
from agentrl import registry
from agentrl.env import host
from configs import worlds

FRAMES = ('auto', 'chat', 'bare')
ARGS = {
  'tiny': ('', 'yes'),
  'judge': ('', 'yes'),
  'env': (*worlds.JITTED, *host.FAMILIES),
}


def parse(arg: str) -> dict[str, str]:
  """'tiny,env=frozen_lake' -> {'tiny': 'yes', 'env': 'frozen_lake'}."""
  out = {name: choices[0] for name, choices in ARGS.items()}
  for part in filter(None, (arg or '').split(',')):
    name, _, value = part.partition('=')
    value = value or 'yes'
    own = name == 'env' and ':' in value  # 'module:Class'
    if name not in ARGS or not (own or value in ARGS[name]):
      raise ValueError(
        f"config argument {part!r} is unknown; choose from 'tiny', 'judge',"
        f' {", ".join(repr(f"env={name}") for name in ARGS["env"])} and'
        " 'env=module:Class' for a family of your own"
      )
    out[name] = value
  return out


def get_config(arg: str = '') -> ConfigDict:
  """Everything but the method."""
  args = parse(arg)
  c = ConfigDict()
  c.method = ''
  c.seed = 0
  c.data = 'data'  # folder of task sets, built once, found again
  c.init = ''  # folder of a run whose policy replaces the warm start
  c.steps = 300  # RL steps
  c.micro = 64  # rows of a micro-batch

  c.env = worlds.settings(args['env'])
  c.model = ConfigDict(
    dict(width=64, layers=2, heads=4, kv_heads=4, head_dim=16, mlp=192,
         theta=10_000.0, positions=1024, eps=1e-6, qk_norm=False, bias=False,
         tied=True, attention='auto', remat='none', dtype='float32',
         # Directory or hub name of a checkpoint: its tokenizer and weights,
         # and its config.json for all but attention, remat and dtype. random:
         # weights are drawn as its family draws them, and none are needed.
         path='', random=False)
  )  # fmt: skip
  # rank 0: every role is a model of its own. Else an adapter of its own, on one
  # frozen base: which matrices (a regular expression), and alpha / rank a b.
  # path: a directory of PEFT's, whose adapter the policy begins with.
  c.lora = ConfigDict(dict(rank=0, alpha=16.0, pattern='q|k|v|o', path=''))
  c.rollout = ConfigDict(
    dict(batch=128, group=8, slots=64, turns=8, message=2, history='turn',
         window=1, context=0, anchor=1.0, temperature=1.0, top_k=0, top_p=1.0,
         tag='', nulled='',
         # What stands around turns: a checkpoint's chat template ('chat'),
         # nothing ('bare'), or the template if there is one. And the text of
         # the template's system message.
         frame='auto', system='')
  )  # fmt: skip
  c.host = ConfigDict()  # where the environment is no jitted one: see worlds
  # Who answers environments that ask: 'user', 'judge', ...; see `service`.
  c.service = ConfigDict()
  # Sizes of the axes that agentrl/mesh.py explains; -1: what is left.
  c.mesh = ConfigDict(
    dict(data=1, fsdp=1, expert=1, sequence=1, tensor=1, explicit=True)
  )

  # Supervised warm start on the solver's own demonstrations.
  c.sft = ConfigDict(dict(steps=130, batch=32, lr=2e-3, warmup=10))

  c.role = ConfigDict()
  role(c, 'policy', lr=6e-4)

  c.eval = ConfigDict(dict(episodes=1000, every=0, temperature=1.0))
  c.checkpoint = ConfigDict(dict(every=20, keep=2))
  # Trajectories that are kept: whole groups of every so many steps (-1: all),
  # and of each evaluation. And the project of Weights & Biases that gets the
  # numbers as well, if it is installed; '': none.
  c.log = ConfigDict(dict(groups=1, every=1, held_out=4, wandb=''))

  # The slots (DESIGN: a method names a piece for each).
  c.task = 'fixed'
  c.rollout_kind = 'jit' if args['env'] in worlds.JITTED else 'host'
  c.collect = 'once'
  c.reward = ('env',)
  c.curate = ()
  c.signal = ()
  c.advantage = ()
  c.stream = ConfigDict()
  c.finish = ()
  c.loss = ('ppo',)
  c.reduce = ConfigDict()
  c.memory = ()
  c.plan = 'minibatches'
  c.coef = ConfigDict()  # of streams and loss terms; 1 where not named
  c.select = ConfigDict()  # loss term -> {'span' | 'source': id}
  # path -> (shape, start, end, steps); 0 steps: to the end of the run
  c.schedule = ConfigDict()
  c.hp = ConfigDict()
  hp(c, 'plan', 'minibatches', n=2)
  for name in (*worlds.needs(c), *(['judge'] if args['judge'] else [])):
    service(c, name)
  worlds.fit(c)
  if args['tiny']:
    shrink(c)
  return c


def shrink(c: ConfigDict) -> None:
  """The whole thing in under two minutes."""
  c.steps = 12
  c.micro = 32
  c.model.update(dict(width=32, heads=4, kv_heads=4, head_dim=8, mlp=96))
  c.rollout.update(dict(batch=32, group=4, slots=32))
  c.rollout.turns = min(c.rollout.turns, 6)
  c.sft.update(dict(steps=160, lr=5e-3))
  c.env.update(dict(train=200, test=100))
  if c.env.name == 'sokoban':
    c.env.update(dict(min_moves=2, max_moves=4))
  c.eval.episodes = 200
  c.checkpoint.every = 8


def role(c: ConfigDict, name: str, *, kind: str = 'train', lr: float = 1e-4,
         warmup: int = 5, clip: float = 1.0, heads: int = 0,
         trunk: str = 'learned') -> None:  # fmt: skip
  """Adds a network: 'train', 'frozen' as the policy was after the warm start,
  or 'average', which a signal moves after another. It is a language model, or
  the policy's trunk under as many value heads as asked for; a 'stopped' trunk
  gets no gradient from them, as that of the policy never does. Over the run
  the rate falls linearly from lr to lr * final. With c.lora it is an adapter;
  an 'average' is then one of a and of b, not of their product.
  """
  c.role[name] = ConfigDict(dict(kind=kind, heads=heads, trunk=trunk))
  if kind == 'train':
    c.role[name].update(
      dict(optimizer='adam', lr=lr, final=0.0, warmup=warmup, clip=clip,
           decay=0.0, b1=0.9, b2=0.99, eps=1e-5)
    )  # fmt: skip


def service(c: ConfigDict, name: str, **fields) -> None:
  """Adds who answers an environment. One of three says who that is:

  function: 'module:name', of (messages, *, seed) -> str
  role: 'policy' as it is when it plays, or another language model of this run
  run: folder of another run of the same model, whose newest policy it is

  The others are for models: temperature (at 0 answers are remembered), tokens
  of an answer and of a conversation with its answer. `system` is what it is
  told before what the environment tells it. It is never trained on what it
  says.
  """
  c.service[name] = ConfigDict(
    dict(function='', role='', run='', temperature=1.0, message=32,
         context=512, system='')
  )  # fmt: skip
  c.service[name].update(fields)


def hp(c: ConfigDict, scope: str, piece: str, **values) -> None:
  """Sets hyper-parameters of a piece; scope is a stream, a term or a slot."""
  if scope not in c.hp:
    c.hp[scope] = ConfigDict()
  if piece not in c.hp[scope]:
    c.hp[scope][piece] = ConfigDict()
  for name, value in values.items():
    c.hp[scope][piece][name] = value


def finish(c: ConfigDict) -> ConfigDict:
  """Writes every default into c.hp and c.coef, so that flags can reach it."""
  w = wiring(c)
  every = registry.defaults(w)
  for scope, pieces in c.hp.items():
    for piece in pieces:
      if piece not in every.get(scope, {}):
        raise ValueError(
          f'c.hp.{scope}.{piece} sets a piece that c.{scope} does not name;'
          f' those with hyper-parameters are {tuple(every.get(scope, {}))}'
        )
  for name in c.coef:
    if name not in (*w.advantage, *w.loss):
      raise ValueError(
        f'c.coef.{name} is neither a stream of c.advantage={w.advantage} nor a'
        f' term of c.loss={w.loss}; remove it or name the piece'
      )
  for name in c.reduce:
    if name not in w.loss:
      raise ValueError(
        f'c.reduce.{name} is for no term of c.loss={w.loss}; remove it or name'
        ' the term'
      )
  for scope, pieces in every.items():
    for piece, values in pieces.items():
      hp(c, scope, piece, **values)
  for name in (*w.advantage, *w.loss):
    if name not in c.coef:
      c.coef[name] = 1.0
  return c


def wiring(c: ConfigDict) -> registry.Wiring:
  """The slots of a config as the registry understands them."""
  return registry.Wiring(
    task=c.task,
    rollout=c.rollout_kind,
    collect=c.collect,
    reward=tuple(c.reward),
    curate=tuple(c.curate),
    signal=tuple(c.signal),
    advantage=tuple(c.advantage),
    stream={name: tuple(chain) for name, chain in c.stream.items()},
    finish=tuple(c.finish),
    loss=tuple(c.loss),
    reduce=dict(c.reduce),
    memory=tuple(c.memory),
    plan=c.plan,
    hp=c.hp.to_dict(),
    gives=(
      *(f'role:{name}' for name in c.role),
      *(('output:value',) if c.role.policy.heads else ()),
      *(f'term:{name}' for name in worlds.terms(c)),
      *(('reading:nulled',) if c.rollout.nulled else ()),
    ),
  )
