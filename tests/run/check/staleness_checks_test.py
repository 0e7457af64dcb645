"""What a method must have to learn from batches of an older policy."""

import pytest

from agentrl.configs import atom_searcher, base, grpo, stages
from agentrl.run.check import fields, staleness_checks, validate
from agentrl.runtime import objects
from tests import errors


def config(arg='tiny', seed=0, **changes):
  c = grpo.get_config(arg)
  c.seed = seed
  c.staleness.update(dict(bound=2, anchor='behaviour') | changes)
  return c


def test_a_method_with_a_trust_region_may_be_stale():
  c = validate.config(config())
  assert staleness_checks.depth(c) == 0  # inside jit
  assert staleness_checks.depth(validate.config(config(depth=9))) == 3
  host = config('tiny,env=countdown')
  assert staleness_checks.depth(validate.config(host)) == 1
  host.staleness.bound = 0
  assert staleness_checks.depth(validate.config(host)) == 0


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'anchor': ''}, 'staleness.bound=2 staleness.anchor behaviour update'),
    ({'anchor': 'update'}, 'staleness.anchor truncated_is c.post'),
    ({'order': 'latest', 'depth': 0}, 'staleness.order staleness.depth'),
    ({'bound': -1}, 'staleness.bound -1'),
    ({'bound': 0, 'depth': 1}, 'staleness.bound depth=1'),
    ({'bound': 0, 'order': 'latest'}, "staleness.bound order='latest'"),
    ({'bound': 0, 'swap': 'turn'}, "staleness.bound swap='turn'"),
    ({'swap': 'token'}, 'staleness.swap staleness.order latest token'),
    (
      {'swap': 'turn', 'order': 'latest', 'depth': 1},
      'staleness.swap jit turn',
    ),
    ({'swap': 'message'}, 'staleness.swap batch turn token message'),
    ({'devices': 8}, 'staleness.devices=8 mesh'),
    ({'devices': 3}, 'rollout.batch=64 staleness.devices=3'),
    ({'devices': 2, 'depth': 2}, 'staleness.depth=2'),
    ({'devices': 2, 'depth': 0}, 'staleness.devices=2 staleness.depth=0'),
    (
      {'jobs': True, 'order': 'latest', 'swap': 'turn'},
      "staleness.swap='turn'",
    ),
    ({'jobs': True, 'depth': 0}, 'staleness.jobs staleness.depth=0'),
    ({'jobs': True, 'devices': 3}, 'rollout.batch=64 staleness.devices=3'),
    ({'jobs': True, 'address': '0.0.0.0'}, "staleness.address '0.0.0.0'"),
    ({'jobs': True, 'address': ''}, "staleness.address ''"),
  ],
)
def test_a_mistake_is_one_sentence(changes, names):
  with errors.raises(ValueError, names):
    validate.config(config(**changes))


def test_weights_change_within_batches_that_threads_collect_on_hosts():
  c = config('tiny,env=countdown', order='latest', swap='token')
  validate.config(c)
  c.staleness.depth = 0
  with errors.raises(ValueError, 'staleness.order staleness.depth'):
    validate.config(c)
  c.staleness.depth, c.host.generator = -1, 'http://somewhere:1'
  with errors.raises(ValueError, 'staleness.order staleness.depth'):
    staleness_checks.check(fields.read(c), base.wiring(c))


def test_age_is_corrected_for_once():
  c = config(anchor='update')
  c.post = ('truncated_is',)
  validate.config(base.finish(c))
  c.staleness.anchor = 'behaviour'
  with errors.raises(ValueError, 'staleness.anchor behaviour truncated_is'):
    validate.config(c)
  c.post, c.hp.post = ('geometric_mask',), {}
  validate.config(base.finish(c))


@pytest.mark.parametrize('loss', ['reinforce', 'kl_cov', 'ipa'])
def test_a_loss_without_a_trust_region_is_refused(loss):
  c = config()
  c.loss, c.loss_aggregation = (loss,), {}
  del c.hp.ppo, c.coef.ppo
  with errors.raises(ValueError, f'{loss} staleness.bound=2'):
    validate.config(base.finish(c))


def test_a_clip_that_shrinks_with_age_needs_the_ratio_to_the_sampler():
  c = config()
  c.loss, c.loss_aggregation = ('ppo_stale',), {}
  del c.hp.ppo, c.coef.ppo
  validate.config(base.finish(c))
  c.staleness.anchor, c.post = 'update', ('truncated_is',)
  with errors.raises(ValueError, 'staleness.anchor behaviour ppo_stale update'):
    validate.config(base.finish(c))
  c.staleness.update(bound=0, anchor='')
  validate.config(c)


def partial(**staleness):
  """Batches of age 0 whose trajectories were begun by older policies."""
  c = grpo.get_config('tiny')
  c.task, c.collect, c.memory = 'partial', 'partial', ('unfinished',)
  c.staleness.update(dict(anchor='behaviour') | staleness)
  queues = c.staleness.bound + 1
  c.hp.memory = {'unfinished': dict(queues=queues)}
  return c


def test_attempts_that_go_on_need_a_trust_region():
  validate.config(partial())
  validate.config(partial(bound=2))
  with errors.raises(ValueError, 'partial staleness.anchor behaviour update'):
    validate.config(partial(anchor=''))
  with errors.raises(ValueError, 'staleness.anchor truncated_is c.post'):
    validate.config(partial(anchor='update'))
  c = partial()
  c.loss, c.loss_aggregation = ('reinforce',), {}
  del c.hp.ppo, c.coef.ppo
  with errors.raises(ValueError, 'reinforce partial'):
    validate.config(base.finish(c))


def test_attempts_that_go_on_have_a_queue_for_each_batch_under_way():
  c = partial(bound=2)
  c.hp.memory = {}
  with errors.raises(ValueError, 'hp.memory.unfinished.queues 3 1'):
    validate.config(c)


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'memory': ()}, 'unfinished'),
    ({'collect': 'once'}, 'unfinished'),
    ({'prefix': 'random_prefix'}, "c.prefix 'none' random_prefix"),
    ({'rollout.kind': 'host_purified'}, 'rollout.kind host_purified'),
    ({'judge': ('fact_match',)}, 'c.judge'),
  ],
)
def test_what_cannot_go_on_is_refused(changes, names):
  c = partial()
  if 'prefix' not in changes:
    c = grpo.get_config('tiny,env=countdown')
    c.update(dict(task='partial', collect='partial', memory=('unfinished',)))
    c.staleness.anchor = 'behaviour'
  c.update_from_flattened_dict(changes)
  with errors.raises(ValueError, names):
    validate.config(c)


def test_a_program_cannot_be_played_again():
  c = grpo.get_config('tiny,env=program')
  c.update(dict(task='partial', collect='partial', memory=('unfinished',)))
  c.staleness.anchor = 'behaviour'
  with errors.raises(ValueError, 'c.task partial program'):
    validate.config(c)


@pytest.mark.parametrize('mesh', [{'data': -1}, {'fsdp': 2}])
def test_threads_are_for_one_device(mesh):
  c = config(depth=1)
  c.mesh.update(mesh)
  with errors.raises(ValueError, 'staleness.depth=1 mesh'):
    validate.config(c)
  c.staleness.depth = -1
  validate.config(c)
  c.mesh.update({'data': 1, 'fsdp': 2})
  c.staleness.update(dict(devices=4, depth=1))
  validate.config(c)


def test_judges_are_asked_by_one_thread():
  c = atom_searcher.get_config('tiny')
  c.staleness.update(dict(bound=1, anchor='behaviour', depth=1))
  with errors.raises(ValueError, 'staleness.depth=1 judge'):
    validate.config(c)


def test_jobs_collect_on_any_mesh_and_without_staleness():
  c = config(jobs=True)
  c.mesh.update(dict(data=2, fsdp=2))
  assert staleness_checks.depth(validate.config(c)) == 3
  c.staleness.update(dict(bound=0, anchor=''))
  assert staleness_checks.depth(validate.config(c)) == 1


def test_jobs_know_only_what_can_be_imported():
  c = config('tiny,env=jsonl', jobs=True)
  c.env.verifier = objects.name_of(lambda answer, task: 1.0)
  with errors.raises(ValueError, 'staleness.jobs config.env.verifier'):
    staleness_checks.check(fields.read(c), base.wiring(c))


def test_jobs_share_a_folder_and_no_bucket():
  c = validate.config(config(jobs=True))
  staleness_checks.folder(c, '/shared/run')
  with errors.raises(ValueError, 'staleness.jobs --workdir gs://a/b'):
    staleness_checks.folder(c, 'gs://a/b')


def test_judges_and_services_answer_no_jobs():
  c = atom_searcher.get_config('tiny')
  c.staleness.update(dict(bound=1, anchor='behaviour', jobs=True))
  with errors.raises(ValueError, 'staleness.jobs judge'):
    validate.config(c)


def test_stages_are_equally_stale():
  c = config()
  base.stage(c, 'one', steps=2)
  base.stage(c, 'two', steps=2, changes={'staleness.bound': 1})
  c.stages = ('one', 'two')
  with errors.raises(ValueError, 'stage two bound=2 bound=1'):
    validate.config(base.finish(c))
  assert len(stages.plans(config())) == 2


@pytest.mark.parametrize('name', ['jobs', 'address'])
def test_the_samplers_of_a_run_collect_for_all_of_its_stages(name):
  c = config()
  other = {'jobs': True, 'address': '127.0.0.2'}[name]
  base.stage(c, 'one', steps=2)
  base.stage(c, 'two', steps=2, changes={f'staleness.{name}': other})
  c.stages = ('one', 'two')
  with errors.raises(ValueError, f'stage.two.staleness.{name}'):
    validate.config(base.finish(c))


def test_seeds_of_one_program_collect_before_their_updates():
  two = [validate.config(config(depth=1, seed=s)) for s in (0, 1)]
  with errors.raises(ValueError, 'staleness.depth=1 0'):
    staleness_checks.together(two)
  staleness_checks.together([validate.config(config(seed=1))])
  two = [validate.config(config(jobs=True, seed=s)) for s in (0, 1)]
  with errors.raises(ValueError, 'staleness.jobs False True'):
    staleness_checks.together(two)


def test_an_outside_generator_generates_for_one_thread():
  c = config('tiny,env=countdown', depth=1)
  c.host.generator = 'http://somewhere:1'
  with errors.raises(ValueError, 'staleness.depth=1 host.generator'):
    staleness_checks.check(fields.read(c), base.wiring(c))
