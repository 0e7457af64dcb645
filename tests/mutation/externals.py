"""Mistakes in environments of others, and in how they are spoken to."""

from tests.mutation.mutant import Mutant

_EXTERNAL = 'agentrl.env.external'
_GYM = 'tests/env/external/gymnasium_env_test.py'
_AEC = 'tests/env/external/aec_env_test.py'
_OPEN = 'tests/env/external/openenv_test.py'
_CLIENT = 'tests/env/external/openenv_client_test.py'
_LINES = 'tests/env/external/line_server_test.py'
_VERIFIERS = 'tests/env/external/verifiers_test.py'

MUTANTS = (
  Mutant(
    f'{_EXTERNAL}.gymnasium_env',
    'GymnasiumEnv.step',
    'self._return += reward',
    'self._return = reward',
    f'{_GYM}::test_rewards_add_up_to_the_score',
    'the last reward alone decides whether a task is solved',
  ),
  Mutant(
    f'{_EXTERNAL}.gymnasium_env',
    'GymnasiumEnv.step',
    'terminated or truncated',
    'terminated',
    f'{_GYM}::test_a_truncated_episode_is_done',
    'an episode goes on after it was truncated',
  ),
  Mutant(
    f'{_EXTERNAL}.gymnasium_env',
    'GymnasiumEnv.reset',
    "seed_globals(task['seed'])",
    'pass',
    f'{_GYM}::test_an_episode_follows_from_its_seed',
    'what draws from the global generators differs each time',
  ),
  Mutant(
    f'{_EXTERNAL}.aec_env',
    'AecEnv._advance',
    'total += float(reward)',
    'total = float(reward)',
    f'{_AEC}::test_every_seat_by_turns_adds_rewards_up',
    'what other seats earned is lost',
  ),
  Mutant(
    f'{_EXTERNAL}.aec_env',
    'AecEnv.step',
    'self._allowed is not None and action not in self._allowed',
    'self._allowed is None',
    f'{_AEC}::test_a_move_that_is_none_is_no_turn_of_the_game',
    'actions are played that the mask forbids',
  ),
  Mutant(
    f'{_EXTERNAL}.aec_env',
    'AecEnv.reset',
    "self._agents[task['player']]",
    'self._agents[0]',
    f'{_AEC}::test_one_seat_gets_its_own_rewards',
    'the policy always has the first seat',
  ),
  Mutant(
    f'{_EXTERNAL}.aec_env',
    'parse',
    'start <= action < start + int(space.n)',
    'start <= action <= start + int(space.n)',
    f'{_AEC}::test_numbers_of_a_space_that_begins_elsewhere',
    'an action beyond the space is played',
  ),
  Mutant(
    f'{_EXTERNAL}.openenv',
    'OpenEnvEnv.step',
    'self._return += now.reward',
    'self._return = now.reward',
    f'{_OPEN}::test_episodes_are_seeds',
    'the last reward alone decides whether a task is solved',
  ),
  Mutant(
    f'{_EXTERNAL}.openenv_client',
    'OpenEnvSession._receive',
    "code == 'CAPACITY_REACHED'",
    "code == 'CAPACITY'",
    f'{_CLIENT}::test_a_full_server_is_waited_for',
    'a full server costs trajectories',
  ),
  Mutant(
    f'{_EXTERNAL}.line_server',
    'LineServer.ask',
    'self._life is None or self._life.over',
    'self._life is None',
    f'{_LINES}::test_a_death_costs_what_is_under_way',
    'a process that died is not started again',
  ),
  Mutant(
    f'{_EXTERNAL}.verifiers',
    'VerifiersRun.wait',
    'min(max(reward, 0.0), 1.0)',
    'reward',
    f'{_VERIFIERS}::test_an_episode_posts_its_reward',
    'a reward above 1 is posted as a score, which the gateway refuses',
  ),
)
