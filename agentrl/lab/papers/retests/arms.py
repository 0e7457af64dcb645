"""Arms and claims of several studies that test the literature again."""

from agentrl.lab.study.spec import Arm, Claim, area_claim, method_arm

REUSE = {'hp.minibatch.minibatches.epochs': 4}  # of two minibatches each
ROOM = 0.03  # that every claim is of


def reused(config: str) -> Arm:
  """Returns a method that updates eight times on each batch."""
  label = f'{config}, eight updates of a batch'
  return method_arm(f'{config}_reuse', label, config=config, changes=REUSE)


def entropy_bonus(weight: float) -> Arm:
  """Builds GRPO with EPO's plain bonus, without its smoothing."""
  none = 'phases', 0.0, 0.0, 0
  changes = {'coef.entropy': weight, 'schedule.coef.entropy_hinge': none}
  name = f'entropy_{weight:g}'.replace('.', '_')
  label = f'entropy bonus {weight:g}'
  return method_arm(name, label, 'ablation', config='epo', changes=changes)


def claim(text: str, one: str, other: str) -> Claim:
  """Claims that one gains 3 points of area over the other."""
  return area_claim(text, one, other, ROOM)


# Of units that credit is given to, in every one of these studies.
CREDIT_CLAIMS = (
  claim(
    'Turns compared by state (GiGPO) are better than GRPO', 'gigpo', 'grpo'
  ),
  claim('HGPO is better than GRPO', 'hgpo', 'grpo'),
  claim('HGPO is better than GiGPO', 'hgpo', 'gigpo'),
  claim('A critic of turns is better than one of tokens', 'ppo_turn', 'ppo'),
)
