"""Which older pools' nodes a pool's balloons keep off: no more than needed, as a change replaces every balloon."""

import pytest

from balloons.api.pool import Mode, PoolNodes
from balloons.view.node_load_and_devices import EMPTY
from balloons.view.tenancy_and_claim import MOST_TERMS, Claim, Term, away_from, selectors_to_avoid
from tests.world import a_node, a_pool
from throttler.kube.metadata import ObjectKey
from throttler.kube.selectors import LabelSelector, Requirement

ZONE, OTHER = LabelSelector({"zone": "a"}), LabelSelector({"zone": "b"})
OWN = Requirement("pool", "In", ("gpu",))
NOT_A = Requirement("zone", "NotIn", ("a",))
YOUNG = a_pool("young", created_s=9.0)
OLDER = [a_pool(name, created_s=1.0, nodes=PoolNodes(selector)) for name, selector in (("a", ZONE), ("b", OTHER))]
A, B = (pool.key for pool in OLDER)


def avoided(
    *,
    lost: dict[ObjectKey, int],
    strayed_to: tuple[ObjectKey, ...] = (),
    terms: tuple[Term, ...] = ((OWN,),),
    stored: tuple[Term, ...] = (),
) -> tuple[LabelSelector, ...]:
    claim = Claim(lost=lost, strayed_to=set(strayed_to))
    return selectors_to_avoid(YOUNG, terms, stored, claim, OLDER)


def test_a_deployment_that_is_made_keeps_off_the_pools_that_took_nodes_and_no_others() -> None:
    assert avoided(lost={A: 3}) == (ZONE,)
    assert avoided(lost={B: 1}) == (OTHER,)
    assert avoided(lost={}) == ()


def test_balloons_that_never_strayed_are_not_replaced_for_a_pool_that_took_nodes() -> None:
    stored = ((OWN,),)
    assert avoided(lost={A: 3}, stored=stored) == ()
    assert avoided(lost={A: 3, B: 1}, stored=stored, strayed_to=(B,)) == (OTHER,)
    assert avoided(lost={A: 3}, stored=stored, strayed_to=(B,)) == (), "to a pool that has taken no node"


def test_a_pool_that_was_kept_off_stays_so_while_no_balloon_strays() -> None:
    assert avoided(lost={A: 3}, stored=((OWN, NOT_A),)) == (ZONE,)


def test_one_alternative_of_two_that_keeps_off_a_pool_is_not_all_of_it() -> None:
    two = ((OWN, NOT_A), (OWN,))
    assert avoided(lost={A: 3}, stored=two) == ()
    assert avoided(lost={A: 3}, stored=two, strayed_to=(A,)) == (ZONE,)


@pytest.mark.parametrize(
    ("terms", "keeps_off"),
    [(((OWN, NOT_A),), False), (((OWN, NOT_A), (OWN,)), True), (((OWN,),), True)],
)
def test_what_the_pools_own_selector_rules_out_is_not_said_twice(terms: tuple[Term, ...], keeps_off: bool) -> None:
    assert avoided(lost={A: 3}, terms=terms) == ((ZONE,) if keeps_off else ())


def in_zones(count: int) -> list[Term]:
    return [(Requirement("zone", "In", (f"z{index}",)),) for index in range(count)]


@pytest.mark.parametrize(("alternatives", "is_kept_off"), [(MOST_TERMS // 2, True), (MOST_TERMS // 2 + 1, False)])
def test_a_selector_that_would_make_too_many_alternatives_is_not_kept_off(alternatives: int, is_kept_off: bool) -> None:
    """Each is parted in two, by the two labels that the selector asks for."""
    terms = in_zones(alternatives)
    parted = away_from(terms, [LabelSelector({"team": "a", "tier": "b"})])
    assert (parted != terms) is is_kept_off
    assert len(parted) == (2 * alternatives if is_kept_off else alternatives)


def test_the_first_alternative_is_not_that_a_node_lacks_a_label() -> None:
    """Karpenter reads that one to see whether the pod is for its nodes."""
    there = LabelSelector({"tier": "b"}, (Requirement("team", "Exists"),))
    for selector in (there, LabelSelector({}, (Requirement("team", "Exists"), Requirement("tier", "In", ("b",))))):
        operators = [term[-1].operator for term in away_from([(OWN,)], [selector])]
        assert operators == ["NotIn", "DoesNotExist"]


def test_a_selector_that_leaves_no_alternative_is_not_kept_off() -> None:
    assert away_from([(OWN,)], [LabelSelector({"pool": "gpu"})]) == [(OWN,)]
    assert away_from([(OWN,)], [LabelSelector({"pool": "gpu"}), ZONE]) == [(OWN, NOT_A)]


def test_labels_that_karpenter_refuses_in_pods_are_left_out_where_it_makes_the_nodes() -> None:
    """A balloon that names one of them would get no node."""
    refused = LabelSelector({"kubernetes.io/hostname": "n1"})
    older = [*OLDER, a_pool("c", created_s=1.0, nodes=PoolNodes(refused))]
    young = a_pool("young", created_s=9.0, mode=Mode.HEADROOM)
    lost = {pool.key: 1 for pool in older}
    for labels, avoided_ones in (({}, (ZONE, OTHER, refused)), ({"karpenter.sh/nodepool": "gpu"}, (ZONE, OTHER))):
        claim = Claim(nodes=[(a_node("n1", labels=labels), EMPTY)], lost=lost)
        assert selectors_to_avoid(young, ((OWN,),), (), claim, older) == avoided_ones
