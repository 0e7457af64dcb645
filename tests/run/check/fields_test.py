"""Odd values of every field and hyper-parameter: refused, or legitimate.

What is legitimate is written down here by hand, so that a declaration that
lets too much in, or too little, is noticed.
"""

import importlib
import math
import re

import pytest

from agentrl import domain, registry
from agentrl.configs import base, envs, grpo
from agentrl.env import base as env_base
from agentrl.lab.papers.dose import (  # noqa: F401  register
  degraded_truth,
  prm_persistence,
)
from agentrl.run import config_file
from agentrl.run.check import fields, validate
from docs.generate import config

ODD = {
  'nan': math.nan,
  'inf': math.inf,
  '-inf': -math.inf,
  '-1': -1,
  '0': 0,
  '1': 1,
  '.5': 0.5,
  'large': 10**12,  # no int32, but a float32
  '1e300': 1e300,  # no float32
  'None': None,
  'True': True,
  "''": '',
  'word': 'nope',
  'words': ('nope',),
  'numbers': (math.nan, 1),
  '()': (),
}
# Which of them are legitimate, by kind of field.
LEGITIMATE = {
  'count': '1',
  'count or 0': '0 1',
  'count or -1': '-1 1',
  'count, 0 or -1': '-1 0 1',
  'no number here': '',  # at least 2, or another field is in the way
  'positive': '1 .5 large',
  'positive or inf': '1 .5 large inf',
  'above 1 or inf': 'large inf',
  'at least 1': '1 large',
  'not negative': '0 1 .5 large',
  'share': '1 .5',
  'probability': '0 1 .5',
  'below 1': '0 .5',
  'below .5': '',
  '0 to .5': '0 .5',
  'temperature': '0 1 .5',
  'any number': '-1 0 1 .5 large',
  'flag': 'True',
  'text': "'' word",
  'word': 'word',
  'choice': '',
  'choice or none': "''",
  'names': 'words ()',
  'some names': 'words',
  'one': '1',
  'up to 1.5': '0 1 .5',
  'up to 5': '-1 0 1 .5',
  'zero': '0',
  '-1 to 1': '-1 0 1 .5',
  'from 1 or inf': '1 large inf',
  'from .5': '1 .5 large',
  '0 to 2': '0 1',
  'up to 3': '0 1',
}
FIELDS = {
  'count': """
    judging.threads micro_batch model.width model.layers model.heads
    model.kv_heads model.mlp rollout.batch rollout.group_size rollout.slots
    rollout.max_turns rollout.max_message_tokens rollout.window sft.batch
    eval.episodes checkpoint.every checkpoint.keep log.every
    host.max_observation_tokens host.decode_steps_per_sync host.prefill_chunk
    host.prefill_slots service.*.message service.*.tries env.train env.test
    sokoban.boxes sokoban.train sokoban.test sokoban.min_moves
    frozen_lake.height frozen_lake.width bifurcation.length countdown.most
    search_questions.people search_questions.passages shop.products shop.page
    shop.attributes textworld_coin.low shop_logs.products shop_logs.page
    shop_logs.actions fact_corpus.min_hops fact_corpus.max_hops
    fact_corpus.passages mcp.characters pettingzoo.players program.branches
    verifiers.size verifiers.branches
    hidden_slots.hidden
    hidden_slots.patience consultation.patience itinerary.tries
    event_stream.needs event_stream.turns in_context_regression.examples
    in_context_regression.scale""",
  'count or 0': """
    judging.budget judging.seed seed steps model.positions lora.rank
    rollout.context rollout.top_k sft.steps sft.warmup eval.every
    log.eval_trajectories host.num_envs role.*.heads role.*.warmup
    service.*.requests_per_minute env.seed bifurcation.filler select.*.source
    shop_logs.history fact_corpus.distractors consultation.table
    reading.*.shift reading.*.max_tokens mix.*.last stage.*.steps
    itinerary.slack event_stream.table in_context_regression.noise""",
  'zero': 'unreliable_tools.small',
  'count or -1': 'mesh.data mesh.fsdp mesh.expert mesh.sequence mesh.tensor',
  'count, 0 or -1': 'log.groups',
  'no number here': """
    model.head_dim service.*.context sokoban.height sokoban.width
    sokoban.max_moves bifurcation.choices countdown.numbers countdown.largest
    interview.numbers interview.largest math_python.size sql_questions.items
    sql_questions.shops textworld_coin.high toy_text.size unreliable_tools.size
    unreliable_tools.largest recommendation.turns table_questions.items
    table_questions.shops fact_corpus.people hidden_slots.kinds
    hidden_slots.slots hidden_slots.values consultation.diseases
    consultation.symptoms itinerary.places itinerary.days itinerary.kinds
    event_stream.events in_context_regression.slopes""",
  'positive': """
    judging.seconds judging.length_scale model.eps lora.alpha host.step_timeout
    host.reset_timeout host.episode_timeout service.*.timeout role.*.eps
    math_python.seconds openenv.seconds openenv.wait
    mcp.seconds""",
  'positive or inf': 'role.*.max_grad_norm',
  'at least 1': 'model.theta',
  'not negative': """
    judging.noise judging.delay frozen_lake.invalid bifurcation.invalid sft.lr
    role.*.lr role.*.final_lr_fraction role.*.qk_clip service.*.input_price
    service.*.output_price service.*.budget unreliable_tools.price_weight
    unreliable_tools.seconds_weight recommendation.spread
    shop_logs.difficulty_scale hidden_slots.question_cost
    consultation.question_cost consultation.price_cost
    consultation.safety_cost mix.*.weight event_stream.disturbance""",
  'share': """
    rollout.state_hash_fraction rollout.top_p toy_text.frozen
    rollout.temperature""",
  'probability': """
    mix.*.error_rate
    judging.flip judging.refusal role.*.weight_decay bifurcation.slip
    unreliable_tools.spread recommendation.leave recommendation.boredom
    recommendation.instructions shop_logs.similarity fact_corpus.contradictions
    fact_corpus.unanswerable fact_corpus.aggregated fact_corpus.lies
    fact_corpus.masked in_context_regression.few
    hidden_slots.revision hidden_slots.confirm itinerary.flawed
    event_stream.needy event_stream.certain event_stream.stray""",
  'below 1': 'role.*.b1 role.*.b2 hidden_slots.refusal',
  '0 to .5': 'interview.noise',
  'temperature': 'eval.temperature service.*.temperature',
  'any number': 'coef.* gymnasium_text.solved openenv.solved pettingzoo.solved',
  'flag': """
    model.qk_norm model.bias model.tied model.random mesh.explicit
    sokoban.coordinates frozen_lake.slip alfworld.admissible countdown.teach
    interview.teach minigrid.rules sql_questions.teach textworld_coin.brief
    textworld_coin.admissible textworld_coin.rules textworld_express.admissible
    toy_text.rules toy_text.slippery unreliable_tools.confidence
    unreliable_tools.teach recommendation.teach shop_logs.teach
    table_questions.teach fact_corpus.notes fact_corpus.teach hidden_slots.teach
    consultation.teach itinerary.feedback itinerary.teach event_stream.teach
    fact_corpus.team mcp.fresh in_context_regression.teach program.sandbox""",
  'text': """
    method init sft.store prefix_source mix.*.store mix.*.of
    model.path lora.path
    rollout.action_prefix rollout.null_observation rollout.system log.wandb
    service.*.function service.*.role service.*.run role.*.run service.*.system
    service.*.address in_context_regression.few_slopes
    host.generator host.generator_model host.generator_key_env
    host.generator_folder
    service.*.model service.*.key_env jsonl.path jsonl.verifier jsonl.test_path
    jsonl.info program.command program.function program.path program.world
    program.settings program.grader sokoban.levels alfworld.data
    countdown.operations gymnasium_text.make gymnasium_text.id
    gymnasium_text.settings gymnasium_text.python math_python.path
    pettingzoo.make pettingzoo.id pettingzoo.settings pettingzoo.show
    pettingzoo.read pettingzoo.python openenv.address openenv.settings
    openenv.action openenv.shown mcp.server mcp.path mcp.verifier
    mcp.test_path mcp.tools verifiers.python verifiers.taskset
    verifiers.settings verifiers.harness
    minigrid.id reasoning_gym.dataset
    reasoning_gym.settings
    scienceworld.task scienceworld.simplifications search_questions.corpus
    search_questions.questions shop.catalogue sql_questions.kinds textarena.id
    textworld_coin.folder textworld_express.settings unreliable_tools.tools
    table_questions.kinds table_questions.tools fact_corpus.aggregates
    fact_corpus.retrievers reading.*.text reading.*.failed reading.*.field""",
  'word': """
    data lora.pattern task prefix rollout.kind collect minibatch
    loss_aggregation.*""",
  'choice': """
    model.attention model.remat model.dtype rollout.history rollout.chat_format
    role.*.kind role.*.trunk role.*.optimizer host.generator_kind env.name
    sokoban.reward
    alfworld.held_out countdown.format math_python.format toy_text.game
    search_questions.format sql_questions.format textworld_express.game
    unreliable_tools.base unreliable_tools.demonstrate unreliable_tools.format
    program.unposted shop_logs.form table_questions.format fact_corpus.held_out
    fact_corpus.format mcp.format program.calls verifiers.calls select.*.span
    hidden_slots.impatient
    consultation.impatient reading.*.source mix.*.kind stage.*.kind
    itinerary.demonstrate countdown.demonstrate pettingzoo.seats""",
  'choice or none': 'host.worker sokoban.oracle frozen_lake.oracle',
  'names': """
    judge curate signal post memory stream.* host.stop_strings sft.mix
    mix.*.edits program.terms""",
  'some names': 'reward advantage loss stages',
  '0 to 2': 'recommendation.hints',
  '-1 to 1': 'judging.length_bias judging.position_bias',
  'up to 3': 'consultation.tests consultation.flags itinerary.wanted',
}
# By name, or by piece and name where a name means different things.
HYPER_PARAMETERS = {
  'count': """
    times group_times epochs n length limit steps least capacity age history
    turns every overlong.margin replay.n compensation.n retries
    replay_when_full.n experience_replay.n slots kinds answer_bleu.order
    states period""",
  'count or 0': """
    depth head ddof restarted_prm.steps window budget tries seed sweeps
    random_prefix.steps max_turns""",
  'no number here': """
    branch.every branch_above.every replay.capacity overlong.limit
    replay_when_full.capacity experience_replay.capacity
    compensation.capacity""",
  'positive': """
    eps first beta temperature far tau_positive tau_negative floor bound
    dppo_tv.threshold dppo_kl.threshold most keep_recovered.least
    splice_correction.least first_turns.turns""",
  'positive or inf': """
    clip clip_low clip_high prefix_clip_low prefix_clip_high future_clip high
    duration_weight.limit dppo_tv.limit dppo_kl.limit cap""",
  'above 1 or inf': 'dual',
  'not negative': """
    penalty bonus threshold shrink against negative cost lr needless_cost
    premature_cost turn_cost power gap""",
  'share': """
    share fraction tau all_parsed discount fast slow difficulty_band.high""",
  'only 0': 'some_parsed value_sampling.least',
  'below 1': 'clarification.bonus difficulty_band.low',
  'probability': """
    correlation
    final due_from marked gamma lam token_gamma token_lam distillation.beta
    moving_average.decay explore staleness compensation.chance mixed
    final_high random_prefix.low random_prefix.high random_prefix.share
    experience_replay.alpha experience_replay.beta host_purified.least
    host_purified.chance scale_by_task_value.width
    scale_by_difficulty.floor weigh_by_difficulty.floor""",
  'below .5': 'margin',
  'any number': """
    coef value above good bad alpha chance slope top solved scale
    entropy_factor.lam imitate_best.threshold entropy_band.penalty
    branch_above.threshold potential.start otherwise""",
  'choice': """
    degraded_truth.error
    unit singleton within weigh reference loss pairing trajectory order form
    format grain grades key spans which""",
  'flag': 'largest',
  'word': """
    name keep switch primary auxiliary role confidence term service question
    field path note statement tag needed needless premature ruled criterion
    reading""",
  'text': """
    answer_f1.tag answer_bleu.tag note_reward.tag diversity.tag gold""",
  'names': 'by questions blocks placeholders',
  'some names': """
    priced.terms weighted.terms gated_or_penalty.terms gate.terms gates tools
    fields tags quality texts""",
  'empty here': 'checklist.weights rubric.weights after',
  'up to 1.5': 'entropy_band.low entropy_hinge.low masked_is.low low',
  'from .5': 'entropy_band.high entropy_hinge.high',
  'up to 5': 'clip_cov.least imitate_clip_cov.least',
  'from 1 or inf': 'clip_cov.most imitate_clip_cov.most',
  'no tuple of three': 'start',
  'no tuple of this length': """
    lexicographic.terms shares scales thresholds weights prices""",
}
LEGITIMATE |= {
  'empty here': '()',
  'no tuple of three': '',
  'no tuple of this length': '',
  'only 0': '0',
}


def kinds(table):
  out = {}
  for kind, names in table.items():
    for name in names.split():
      assert name not in out, f'{name} is written down twice'
      out[name] = set(re.findall(r'\S+', LEGITIMATE[kind]))
  return out


def configs():
  """Small configs that have every field between them."""
  names = (*envs.JITTED, *env_base.FAMILIES)
  for name in names:
    c = grpo.get_config(f'tiny,env={name}')
    base.role(c, 'other')
    base.reading(c, 'other')
    base.service(c, 'other', function='agentrl.env.worlds.interview:truthful')
    c.select.ppo = {'span': 'other'}
    c.select.kl_k3 = {'source': 0}
    c.loss_aggregation.ppo = 'token_mean'
    if name == names[-1]:  # every stage is checked as a config of its own
      base.source(c, 'other')
      base.stage(c, 'other', steps=1)
      c.stages = ('sft', 'rl', 'other')
    yield name, c


def known_as(path, name):
  """How FIELDS calls it."""
  section, _, rest = path.partition('.')
  if section == 'env' and rest in fields.envs.TASKS:
    own = envs.ENV.get(name, {})
    return f'{name}.{rest}' if rest in own else path
  if section == 'env':
    return f'{name}.{rest}'
  if section in ('role', 'service', 'select', 'reading', 'mix', 'stage'):
    return f'{section}.*.{path.split(".")[-1]}'
  return (
    f'{section}.*'
    if section in ('coef', 'stream', 'loss_aggregation')
    else path
  )


def every_field():
  """(name in FIELDS, path, a config that has it), each once."""
  seen = set()
  for name, c in configs():
    for path in fields.flat(c):
      known = known_as(path, name)
      if not path.startswith(('hp.', 'schedule.')) and known not in seen:
        seen.add(known)
        yield known, path, c


def put(c, path, value):
  *before, last = path.split('.')
  for name in before:
    c = c[name]
  old = c[last]
  del c[last]  # its type would turn 1 into 1.0
  c[last] = value
  return old


def refused(check, field, value):
  """Whether the check refuses, in one sentence of field and value."""
  try:
    check()
  except ValueError as error:
    message = str(error)
    assert '\n' not in message
    assert f'{field.split(".")[-1]}={value!r}' in message, message
    assert '; ' in message, f'no fix: {message}'
    return True
  return False


def one_sentence(c):
  """Whatever else does not fit now is a sentence too."""
  try:
    validate.config(c)
  except ValueError as error:
    message = str(error)
  else:
    return
  assert '\n' not in message


def test_odd_values_of_every_field():
  legitimate, count, wrong = kinds(FIELDS), 0, []
  for known, path, c in every_field():
    for label, value in ODD.items():
      fine = label in legitimate[known]
      old = put(c, path, value)
      # What training calls refuses what is no value; a value may name a piece
      # that there is not, or leave no room for another field.
      run = fields.check if fine else validate.config
      if refused(lambda run=run, c=c: run(c), path, value) == fine:
        wrong.append(f'{path}={value!r}: {"refused" if fine else "accepted"}')
      if fine:
        one_sentence(c)
      put(c, path, old)
      count += 1
  assert not wrong
  assert count >= 2000


def test_odd_values_of_every_hyper_parameter():
  legitimate, count, wrong = kinds(HYPER_PARAMETERS), 0, []
  for piece in pieces():
    for name in piece.defaults:
      own = f'{piece.name}.{name}'
      allowed = legitimate[own if own in legitimate else name]
      for label, value in ODD.items():
        fine = label in allowed
        values = {name: value}
        run = lambda p=piece, v=values: registry.check_values(p.slot, p, v)  # noqa: E731
        if refused(run, name, value) == fine:
          wrong.append(f'{own}={value!r}: {"refused" if fine else "accepted"}')
        count += 1
  assert not wrong
  assert count >= 3000


def pieces():
  """Those that ship."""
  for slot in registry.SLOTS:
    for name in registry.names(slot):
      piece = registry.get(slot, name)
      if piece.f.__module__.startswith('agentrl.'):
        yield piece


def test_every_hyper_parameter_declares_its_domain():
  for piece in pieces():
    own = domain.declared(piece.f)
    for name, value in piece.defaults.items():
      assert name in own, (
        f'{piece.slot} {piece.name}: declare {name} as an Annotated type of'
        ' agentrl/domain.py'
      )
      own[name].check(name, value, piece.defaults)


METHODS = config_file.methods()


@pytest.mark.parametrize('arg', ['tiny', 'env=countdown'])
def test_every_field_of_every_config_is_declared(arg):
  for method in METHODS:
    module = importlib.import_module(f'agentrl.configs.{method}')
    fields.check(module.get_config(arg))


def test_every_default_is_in_its_domain():
  tables = [base.FIELDS, base.OPEN, envs.TASKS, *envs.ENV.values()]
  for table in tables:
    beside = {name: field.default for name, field in table.items()}
    for name, field in table.items():
      assert field.meaning
      if name != 'advantage':  # a method fills it
        field.domain.check(name, field.default, beside)


@pytest.mark.parametrize(
  'path',
  [
    'task',
    'rollout.kind',
    'collect',
    'minibatch',
    'reward',
    'curate',
    'signal',
    'advantage',
    'post',
    'loss',
    'memory',
    'stream.episode',
    'loss_aggregation.ppo',
  ],
)
def test_pieces_that_there_are_not(path):
  c = grpo.get_config('tiny')
  c.loss_aggregation.ppo = 'token_mean'
  many = isinstance(fields.flat(c)[path], tuple)
  put(c, path, ('nope',) if many else 'nope')
  with pytest.raises(ValueError, match="'nope'"):
    validate.config(c)


def test_a_bucket_is_no_path():
  c = grpo.get_config('tiny')
  put(c, 'init', 'gs://bucket/x')  # but a run may be in one
  fields.check(c)
  for path in ('data', 'model.path', 'lora.path', 'env.levels'):
    old = put(c, path, 'gs://bucket/x')
    with pytest.raises(ValueError, match=rf"{path}='gs://bucket/x' is no fo"):
      validate.config(c)
    put(c, path, old)


def test_a_piece_of_a_user_is_checked_by_the_types_of_its_defaults():
  def own(x, *, rate: float = 0.5, many: int = 3, free=None):
    return x

  piece = registry.Component('link', 'own', own)
  registry.check_values('s', piece, {'rate': -2.0, 'free': object()})
  for values in ({'rate': math.nan}, {'many': 0.5}, {'many': True}):
    with pytest.raises(ValueError, match=r'hp\.s\.own\.'):
      registry.check_values('s', piece, values)


def test_the_page_is_up_to_date():
  with open(config.PAGE, encoding='utf-8') as f:
    text = f.read()
  assert text == config.page(), 'run `python -m docs.generate.config`'


def test_help_lists_the_fields_of_a_config():
  text = fields.listed(grpo.get_config('tiny'))
  for line in (
    '--config.rollout.top_p=1.0: a number, more than 0 and at most 1; ',
    '--config.hp.ppo.ppo.clip_low=0.2: a number, more than 0',
    '--config.env.width=6: a whole number from 3 to 64; cells',
  ):
    assert line in text
