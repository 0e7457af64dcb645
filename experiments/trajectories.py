"""Builds a data set of trajectories from a run's log, or from others' files.

  python -m experiments.trajectories --run=runs/oprl --solved --out=data
  python -m experiments.trajectories --messages=chats.jsonl --outcome=1 \
    --tokenizer=models/qwen --out=data --name=chats

Prints what the store holds. Logged tokens are taken as they were sampled; a
file's are taken where it has token ids, and encoded by --tokenizer otherwise.
docs/DATA.md says how to edit and read a store.
"""

from absl import flags

from agentrl import cli
from agentrl.domain import Name, Path

_PATH = Path(empty=False)
_RUN = cli.flag('run', None, _PATH, 'Folder of a run')
_FILES = {
  'openai': cli.flag('messages', None, _PATH, 'JSON lines of OpenAI messages'),
  'verifiers': cli.flag('verifiers', None, _PATH, 'Results of verifiers'),
  'preferences': cli.flag('preferences', None, _PATH, 'Chosen and rejected'),
  'atif': cli.flag('atif', None, _PATH, 'Trajectories in the format ATIF'),
}
_OUT = cli.flag('out', None, _PATH, 'Folder of data sets')
_NAME = cli.flag('name', 'trajectories', Name(), 'Name of the data set')
_PHASE = flags.DEFINE_enum(
  'phase', 'rl', ['sft', 'rl', 'eval', 'all'], 'Of --run; eval: held-out tasks.'
)
_SOLVED = flags.DEFINE_bool(
  'solved', False, 'Whether to take only solved ones.'
)
_OUTCOME = flags.DEFINE_float('outcome', None, 'Of what a file gives none.')
_TOKENIZER = cli.flag(
  'tokenizer', '', Path(), "Folder of a checkpoint that chats, or 'embedded'"
)


def main() -> None:
  from agentrl.dataset import imports, run_log, trajectory_store  # seconds
  from agentrl.text import chat_format

  files = {kind: x.value for kind, x in _FILES.items() if x.value}
  if len(files) + bool(_RUN.value) != 1:
    raise ValueError(
      'name one: --run, --messages, --verifiers, --preferences or --atif'
    )
  made = run_log.read(_RUN.value, phase=_PHASE.value) if _RUN.value else ()
  for kind, path in files.items():
    talk = chat_format.named(_TOKENIZER.value) if _TOKENIZER.value else None
    made = imports.read(kind, path, talk, outcome=_OUTCOME.value)
  chosen = (x for x in made if x.solved or not _SOLVED.value)
  trajectory_store.build(chosen, _OUT.value, _NAME.value)
  store = trajectory_store.open_store(_OUT.value, _NAME.value)
  print(trajectory_store.summary(store))


if __name__ == '__main__':
  cli.run(main, required=('out',))
