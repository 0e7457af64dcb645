"""Groups of methods by what they share, for README.md and docs/METHODS.md."""

GROUPS: dict[str, tuple[str, ...]] = {
  'one advantage per trajectory, relative to its group or batch': (
    'grpo', 'dr_grpo', 'rloo', 'reinforce_pp', 'opo', 'maxrl', 'remax',
    'dapo', 'barfi', 'dgrpo', 'dr_mas', 'duration_aware', 'flow_grpo',
    'gdpo', 'gpg', 'grpo_passk', 'grpo_roc', 'lite_ppo', 'otb', 'para_grpo',
    'reinforce_pp_baseline', 'reinforce_pp_kl', 'starpo_s',
    'coopetition_gym', 'cpr_norms',
  ),
  'step-level credit: same-state groups, judge labels, information gain': (
    'gigpo', 'hgpo', 'vpr', 'slea_rl', 'infopo', 'mira', 'adca', 'ppr',
    'cm2', 'adca_allocation', 'gigpo_no_std', 'memact_dcpo', 'toolpo',
    'vpr_turn', 'graph_return', 'statefactory', 'swe_trace',
  ),
  'critics per token, turn, segment or utterance': (
    'ppo', 'ppo_turn', 'ppo_bilevel', 'steppo', 'vl_dac', 'odysseus',
    'hiper', 'archer', 'digiq', 'hiper_released', 'archer_replay',
  ),
  'process reward models learned beside the policy': (
    'oprl', 'prime', 'prime_detached', 'prime_bon', 'spa', 'oprl_merged',
    'oprl_parity', 'oprl_placebo', 'oprl_process_only', 'oprl_restart',
    'oprl_rloo', 'oprl_sparse', 'oprl_token', 'oprl_truth', 'td_prm',
    'td_prm_outcome', 'td_prm_replay', 'td_critic', 'oprl_degraded',
  ),
  'entropy control and branching rollouts': (
    'aem', 'epo', 'aepo', 'clip_cov', 'kl_cov', 'arpo', 'appo',
    'treeps_rag', 'arpo_hard', 'epo_released', 'trace',
  ),
  'composed rewards: judges, evidence, prices, questions, tools': (
    'toolorchestra', 'speakrl', 'calibration', 'marag_r1', 'atom_searcher',
    'chatshop', 'deep_dxsearch', 'doctor_r1', 'evinote_rag', 'oni', 'prs',
    'oni_learned', 'chatshop_dcpo', 'prs_vspo', 'artist',
    'recoworld', 'shop_r1', 'smartsnap', 'tablegpt_r1', 'tool_star', 'toolrl',
  ),
  'importance ratios, other objectives, imitation and replay': (
    'gspo', 'cispo', 'gmpo', 'sapo', 'dppo', 'ipa', 'seeupo',
    'truncated_is', 'nft', 'raft', 'spear', 'bn_gspo', 'clip_higher',
    'dppo_kl', 'gspo_token', 'gspo_turn', 'icepop', 'mis', 'muonclip',
    'nft_sequence', 'raft_pp', 'rorecomp', 'cleaner', 'polar',
    'verltool',
  ),
  'self-play: a baseline for each seat': (
    'spiral', 'spiral_magnet', 'mars',
  ),
  'tasks that the policy, or a service, writes': ('agent0', 'pae', 'ssp'),
  'several policies: a model for each seat': (
    'cory', 'dr_mas_models', 'astraflow', 'agentflow', 'ai_searchplanner',
    'unitymas_o', 'comas', 'marft',
  ),
  'batches of earlier policies': (
    'areal', 'relax_async', 'agentmath_partial',
  ),
  'teachers: distillation on what the student samples': (
    'opd', 'gkd', 'opsd', 'skill_sd', 'tt_opd', 'tcod',
  ),
  'what is attempted: horizons, skills': ('scalinginter', 'rl_experimenter'),
  'imitation of demonstrations: feedback, corrections, silence': (
    'faft', 'agentrefine', 'proactive_agent', 'smart', 'aegis_errors',
    'multicritique', 'low_param_branch',
  ),
  'preferences: pairs of own attempts': (
    'dpo', 'agent_q', 'preflexor', 'tearag_ipdpo', 'anyprefer',
  ),
  'reward models: of factors, principles, users, dimensions and hindsight': (
    'heron', 'salmon', 'vpl', 'recrm_bench', 'armap',
  ),
  'lists of stages: supervised and RL in turn': (
    'expert_iteration', 'behavior_priming', 'continual_rft',
    'agent_r', 'eef', 'early_experience', 'early_experience_reflection', 'rise',
    'kat_coder', 'masksearch', 'echo_chamber', 'implicit_inference',
    'chain_of_agents', 'memory_r1',
  ),
  'what is given: beginnings of demonstrations': (
    'prefix_rft', 'step_grpo', 'guided_retry', 'agent_rlvr',
  ),
  'what is read: oracles in the context, summaries': (
    'lumina', 'compaction_rl', 'evolver', 'training_free_grpo',
    'retroformer', 'inspo',
  ),
}  # fmt: skip


def check(names: list[str]) -> None:
  """Raises ValueError for a method that is in no group, or has no config."""
  grouped = [name for group in GROUPS.values() for name in group]
  if wrong := sorted(set(names) ^ set(grouped)):
    raise ValueError(
      f'{", ".join(wrong)}: in configs/ or in GROUPS of'
      ' docs/generate/method_groups.py, but not in both; put each method in one'
      ' group'
    )
