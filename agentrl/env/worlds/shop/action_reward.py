"""Reward of a predicted action of a shopper, and its parts.

Shop-R1 (arXiv 2507.17842) rewards an action by how much of it is right, and
what is hard to get right by a factor, its difficulty-aware reward scaling.
"""

from typing import NamedTuple

from agentrl.text import grading

# type -> the attributes that an action of it has.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
  'click': ('name',),
  'type_and_submit': ('name', 'text'),
  'terminate': (),
}
SCALE = 1000.0  # DARS of the paper


class ShopperAction(NamedTuple):
  """An action; attributes that its type has not, or that lack, are empty."""

  type: str  # one of `ATTRIBUTES`
  name: str = ''  # of what is clicked, or of the field that is typed into
  text: str = ''  # that is typed


class ActionMatch(NamedTuple):
  """Parts of the reward, each in [0, 1]; all 0 where the type is wrong."""

  type_right: float = 0.0
  attribute_present: float = 0.0  # share of the gold action's that are written
  name_rouge: float = 0.0  # of what is clicked
  field_rouge: float = 0.0  # of the field that is typed into
  text_rouge: float = 0.0  # of what is typed
  exact: float = 0.0  # type and attributes are those of the gold action


# v(a) is the sum of the parts by these weights; DARS stands where a 1 is.
_PLAIN = ActionMatch(type_right=0.3, attribute_present=0.2, field_rouge=0.1)
_HARD = ActionMatch(name_rouge=1.0, text_rouge=1.0)


def match(
  action: ShopperAction | None, gold: ShopperAction, *, threshold: float = 0.0
) -> ActionMatch:
  """Compares an action with the gold one; None is one that cannot be read.

  Args:
    threshold: in [0, 1]; a ROUGE-L below it counts as 0. The paper names 0.75
      as an example; at 0 every common word counts.
  """
  if action is None or action.type != gold.type:
    return ActionMatch()
  wanted = [
    (given, right)
    for given, right in zip(action[1:], gold[1:], strict=True)
    if right
  ]
  name = _similarity(action.name, gold.name, threshold)
  clicks = gold.type == 'click'
  return ActionMatch(
    type_right=1.0,
    attribute_present=sum(bool(given) for given, _ in wanted)
    / max(1, len(ATTRIBUTES[gold.type])),
    name_rouge=name * clicks,
    field_rouge=name * (not clicks),
    text_rouge=_similarity(action.text, gold.text, threshold),
    exact=float(
      all(
        grading.normal(given) == grading.normal(right)
        for given, right in zip(action[1:], gold[1:], strict=True)
      )
    ),
  )


def hierarchical(
  action: ShopperAction | None,
  gold: ShopperAction,
  *,
  dars: float = SCALE,
  threshold: float = 0.0,
) -> float:
  """Returns the action reward v(a) of Shop-R1; 0 where the type is wrong:

    click            0.3 + 0.2·[name] + DARS·ROUGE-L(name)
    type_and_submit  0.3 + 0.1·[name] + 0.1·[text] + 0.1·ROUGE-L(name)
                     + DARS·ROUGE-L(text)
    terminate        0.3

  [x] is 1 where the gold action has x and the action has some x too. The whole
  reward of the paper is 0.5·[format] + v(a) and terms of the rationale.

  Args:
    action: None where it cannot be read.
    dars: factor of what is hard to predict.
    threshold: see `match`.
  """
  parts = match(action, gold, threshold=threshold)
  return sum(
    part * (plain + dars * hard)
    for part, plain, hard in zip(parts, _PLAIN, _HARD, strict=True)
  )


def _similarity(text: str, gold: str, threshold: float) -> float:
  similarity = grading.rouge_l(text, gold)
  return similarity if similarity >= threshold else 0.0
