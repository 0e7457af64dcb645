"""Descriptions of metrics: what each number of metrics.jsonl is, and its unit.

Names are patterns: `*` is any text. The first pattern that fits describes a
metric, so that special names stand before general ones.
"""

import fnmatch
from collections.abc import Mapping
from typing import NamedTuple


class Description(NamedTuple):
  unit: str  # '' for a plain number
  meaning: str


_OF_STREAM = 'advantages of the stream, after its links: '
METRICS: Mapping[str, Description] = {
  name: Description(unit, meaning)
  for name, unit, meaning in (
    ('eval/success', 'share', 'held-out episodes that were solved'),
    ('eval/score', '', 'mean outcome of held-out episodes'),
    (
      'eval/ci_low',
      'share',
      'low end of the 95% interval of success, over tasks',
    ),
    (
      'eval/ci_high',
      'share',
      'high end of the 95% interval of success, over tasks',
    ),
    ('eval/solved', 'episodes', 'held-out episodes that were solved'),
    ('eval/episodes', 'episodes', 'held-out episodes that were scored'),
    ('eval/unscored', 'episodes', 'left out since their environment failed'),
    ('eval/tasks', 'tasks', 'different held-out tasks'),
    ('eval/turns', 'turns', 'mean length of a held-out episode'),
    ('eval/turns_solved', 'turns', 'mean length of a solved episode'),
    ('eval/total/*', 'per episode', 'sum of a column of the environment'),
    ('eval/ended/*', 'share', 'held-out episodes that ended so'),
    ('eval/cut', 'observations', 'that were shortened to fit'),
    ('eval/fault/*', 'trajectories', 'held-out ones lost to this error'),
    ('eval/engine/*', '', 'as rollout/engine/*, of held-out episodes'),
    ('eval/service/*', '', 'as rollout/service/*, of held-out episodes'),
    ('eval/program/*', '', 'as rollout/program/*, of held-out episodes'),
    ('eval/*/success', 'share', 'success on the tasks of * after a stage'),
    ('eval/*/ci_low', 'share', 'lower end of its 95% interval'),
    ('eval/*/ci_high', 'share', 'upper end of its 95% interval'),
    ('eval/*/solved', 'episodes', 'on the tasks of * that were solved'),
    ('eval/*/episodes', 'episodes', 'on the tasks of * that were scored'),
    ('rollout/success', 'share', 'sampled trajectories that were solved'),
    ('rollout/return', 'reward', 'mean sum of rewards of a trajectory'),
    ('rollout/turns', 'turns', 'mean length of a trajectory'),
    ('rollout/tokens', 'tokens', 'sampled in this step, used or not'),
    ('rollout/env_steps', 'steps', 'of environments in this training step'),
    ('rollout/attempts', 'trajectories', 'sampled in this step'),
    ('rollout/entropy', 'nats', 'policy entropy at a sampled token'),
    ('rollout/age', 'updates', 'since the oldest token was sampled, mean'),
    ('rollout/age_max', 'updates', 'the same, of the oldest trajectory'),
    (
      'rollout/version_span',
      'updates',
      'between the oldest and the newest token of a trajectory, mean',
    ),
    ('rollout/prefix_turns', 'turns', 'mean number of turns that were given'),
    ('rollout/prefix_cut', 'turns', 'of prefixes cut by the environment'),
    ('rollout/success_alone', 'share', 'solved among those without a prefix'),
    ('rollout/hinted', 'share', 'trajectories sampled with a hint'),
    ('rollout/unscored', 'trajectories', 'whose environment broke'),
    ('rollout/invalid', 'share', 'turns with an invalid action'),
    ('rollout/progress', 'per turn', 'progress towards the solution'),
    ('rollout/switch', 'share', 'turns that chose a new subgoal'),
    ('rollout/cut', 'observations', 'that were shortened to fit'),
    ('rollout/fault/*', 'trajectories', 'lost to this environment error'),
    ('rollout/engine/prefilled', 'tokens', 'of prompts that were computed'),
    (
      'rollout/engine/prefilled_again',
      'tokens',
      'that an older version had computed before',
    ),
    ('rollout/engine/prefix_hits', 'tokens', 'of prompts reused from a cache'),
    ('rollout/engine/decoded', 'tokens', 'sampled by the engine'),
    ('rollout/engine/discarded', 'tokens', 'sampled past a message end'),
    ('rollout/engine/evicted', 'slots', 'whose cached prefix was evicted'),
    ('rollout/engine/rounds', 'rounds', 'of the engine'),
    ('rollout/engine/swaps', 'versions', 'of weights taken within the batch'),
    ('rollout/engine/updates', 'versions', 'of weights sent to a server'),
    ('rollout/program/calls', 'calls', 'of programs that were admitted'),
    ('rollout/program/branches', 'calls', 'that begin a branch'),
    ('rollout/program/foreign', 'messages', 'of the agent not sampled here'),
    ('rollout/program/*', '', 'count of what programs asked or posted'),
    ('tasks/total', 'tasks', 'of the training set'),
    ('tasks/attempted', 'tasks', 'attempted at least once so far'),
    ('tasks/attempts', 'attempts', 'so far, per attempted task'),
    ('tasks/attempts_max', 'attempts', 'so far, at the most attempted task'),
    ('tasks/never_solved', 'share', 'of those attempted, unsolved so far'),
    ('tasks/always_solved', 'share', 'of those attempted, never failed so far'),
    ('compensation/waiting', 'trajectories', 'deferred, not yet trained on'),
    (
      'compensation/lost',
      'trajectories',
      'dropped for newer ones, so far',
    ),
    ('rollout/service/*', '', 'count of a judge or simulated user'),
    ('rollout/judge/*/score', '', 'mean score that the judge gave'),
    ('rollout/judge/*/items', '', 'turns or trajectories that were judged'),
    ('rollout/judge/*/questions', '', 'put to the judge, cached or not'),
    ('rollout/judge/*/cached', '', 'questions answered before'),
    ('rollout/judge/*/failed', 'items', 'without a readable answer'),
    ('rollout/judge/*/late', 'items', 'that exceeded judging.seconds'),
    ('rollout/judge/*/over_budget', 'items', 'not judged, the budget is spent'),
    ('rollout/judge/*/unscored', 'scores', 'missing for any reason'),
    ('rollout/*', 'per turn', 'column of the environment or a reward'),
    ('advantage/*/abs_mean', '', _OF_STREAM + 'mean size'),
    ('advantage/*/std', '', 'mean standard deviation within a group'),
    (
      'advantage/*/zero_variance_frac',
      'share',
      'groups of identical members, without a learning signal',
    ),
    ('advantage/*/gate', '', 'mean weight of the stream, by its gate'),
    ('advantage/*/kept', 'share', 'tokens that a mask left in the loss'),
    ('advantage/*/taught', 'share', 'tokens of the first turns, with credit'),
    ('advantage/*/flipped', 'share', 'turns whose credit changed sign'),
    ('advantage/*/shared', 'share', 'turns whose state others visited too'),
    ('advantage/*/priority', 'share', 'trajectories that were not deferred'),
    ('advantage/*/factor', '', 'by which the value of tasks scales credit'),
    ('advantage/*', '', 'reported by a link of the stream'),
    ('loss/total', '', 'sum of all terms, each by its coefficient'),
    ('loss/*', '', 'loss term, before its coefficient'),
    (
      'logp/sampler_mismatch',
      'nats',
      'mean |learner - sampler| log-prob of a sampled token, before the update;'
      ' above 0 where their kernels, precision or policy version differ',
    ),
    ('logp/sampler_mismatch_max', 'nats', 'the same, its largest token'),
    ('time/seconds', 's', 'of running, over all restarts'),
    ('time/wait_seconds', 's', 'that the update waited for its batch'),
    ('time/collect_seconds', 's', 'that a batch beside the updates took'),
    ('time/publish_seconds', 's', 'until its version could be read by jobs'),
    ('samplers/connected', 'jobs', 'that collect batches for the learner'),
    ('samplers/lost', 'jobs', 'that died or left within a batch'),
    ('samplers/damaged', 'versions', 'not read as they were published'),
    ('prm/kl', 'nats', 'PRM against its reference, a token'),
    ('prm/pair_accuracy', 'share', 'solved-failed pairs in the right order'),
    ('prm/pairs', 'pairs', 'solved and failed of one task'),
    ('prm/reward_size', '', 'mean size of a step reward'),
    ('prm/truth_correlation', '', 'step rewards with true progress'),
    ('prm/advantage_correlation', '', 'step rewards with the true advantage'),
    (
      'prm/persistence',
      '',
      'of the error of step rewards, from one iteration to the next',
    ),
    (
      'prm/persistence_within_states',
      '',
      'the same, of what tells the actions of a state apart',
    ),
    (
      'degraded_truth/correlation',
      '',
      'what a planted error leaves of the truth, measured',
    ),
    ('value/td_error', '', 'squared error of a turn, mean over the steps'),
    ('progress/error', '', 'of the sums of redistributed rewards'),
    ('progress/truth_correlation', '', 'progress rewards with true progress'),
    ('kl/turn_*', 'nats', 'log-ratio to the teacher in that turn, a token'),
    ('information/mean', 'nats', 'log-prob gained by an observation'),
    ('blend/*', 'share', 'weight of a reward term in the blend'),
    (
      '*/explained_variance',
      'share',
      'variance of targets that values explain',
    ),
    ('*/grad_norm', '', 'norm of the gradient, before clipping'),
    ('*/nonfinite_skips', 'share', 'updates skipped for a non-finite gradient'),
    ('*/max_logit', '', 'largest attention logit'),
    ('*/ratio', '', 'mean importance ratio, new policy over old'),
    ('*/approx_kl', 'nats', 'KL of the old policy to the new, k3 estimate'),
    ('*/clip_frac_low', 'share', 'tokens clipped at the low bound'),
    ('*/clip_frac_high', 'share', 'tokens clipped at the high bound'),
    ('*/clip_dual', 'share', 'tokens clipped by the dual bound'),
    ('*/kl', 'nats', 'KL to the reference policy, a token'),
    ('*/entropy', 'nats', 'entropy at a trained token'),
    ('*/nll', 'nats', 'negative log-prob of a trained token'),
    ('distillation/divergence', 'nats', 'divergence from the teacher, a token'),
    ('*/divergence', '', 'divergence of the old policy and the new'),
    ('*/error', '', 'half the squared error of values'),
    ('*_explained', 'share', 'variance of targets that values explain'),
    ('*clip', 'share', 'what a clip has changed'),
    ('*/mask', 'share', 'tokens left out of the loss'),
    ('*/held', 'share', 'tokens held by a KL penalty'),
    ('*/spared', 'share', 'tokens left out for their covariance'),
    ('*/outside', 'share', 'tokens outside the entropy bounds'),
    ('*/gate', '', 'mean factor of a soft clip'),
    ('*/width', '', 'mean factor of the clip, which shrinks for stale tokens'),
    ('*/future', '', 'mean weight by what follows a token'),
    ('*/suffix', '', 'mean ratio of what follows a token'),
    ('*/good', 'share', 'tokens of trajectories to imitate'),
    ('*/floor', 'share', 'tokens at the floor of the ratio'),
    ('*/loss', '', "loss of the network's own training"),
  )
}


def describe(name: str) -> Description | None:
  """The description of a metric, or None."""
  for pattern, description in METRICS.items():
    if fnmatch.fnmatchcase(name, pattern):
      return description
  return None
