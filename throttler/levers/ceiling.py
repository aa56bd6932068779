"""What all ceilings share: when one is needed, how often it may be written, whether an autoscaler has taken it up.

A ceiling is needed while anything waits that is to be paced. One that nobody reads paces nothing, and one that somebody
else writes too is written less often. All times are monotonic seconds.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from throttler.api.throttle import JoinThrottle
from throttler.kube.karpenter import NodePool
from throttler.kube.metadata import KindNames, LimitedObject, ObjectKey, OwnedMetadata
from throttler.kube.quantities_and_durations import QuantityError, Resources
from throttler.kube.reasons_and_events import Because, because
from throttler.kube.selectors import LabelSelector
from throttler.levers.lever_and_reasons import (
    THROTTLE_LABEL,
    Holder,
    How,
    Lever,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverScene,
    LeverState,
    LeverWrite,
    Limited,
    PacedAutoscaler,
    Remembered,
    Settings,
    epoch_of,
    is_held_by,
)
from throttler.levers.saved_limits import (
    SavedLimits,
    amount_of,
    clamped,
    foreign,
    is_marked_so,
    is_unreadable,
    marked,
    read_saved,
    restore,
    standing,
    taken_in,
    unraised,
    with_ceiling,
)

StateAndReason = tuple[LeverState, Because]
"""How far a ceiling can be trusted, and why."""
MILLI = 1000
"""Amounts are kept in thousandths, counts of nodes too."""

CONFIRM_WITHIN_S = 30.0
"""Both autoscalers take up a changed object within about a second (observed: Karpenter 1.15.0, CA 1.36.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uptake:
    """Since when a written object has not been taken up; None while it has. Times are monotonic seconds."""

    waiting_since_s: float | None = None

    def looked(self, now_s: float, *, is_taken_up: bool) -> Self:
        """After a look at the object."""
        since = now_s if self.waiting_since_s is None else self.waiting_since_s
        return type(self)(waiting_since_s=None if is_taken_up else since)

    def waited_s(self, now_s: float) -> float:
        """For how long it has not been taken up."""
        return 0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s

    def is_late(self, now_s: float) -> bool:
        """Whether it counts as not confirmed."""
        return self.waited_s(now_s) >= CONFIRM_WITHIN_S


def held_by_newer(metadata: OwnedMetadata, holder: Holder) -> StateAndReason | None:
    """Why the object is not this holder's to move: a newer leader wrote it; None where it is.

    What another throttle has left there, whose object it is no more, is taken over as it stands, with the user's value:
    given back first, growth would be open for as long as the next write takes.
    """
    if holder.is_deposed_by(metadata.annotations):
        return LeverState.UNCONFIRMED, because(LeverReason.NEWER_HOLDER, epoch=epoch_of(metadata.annotations))
    return None


def is_pool_taken_up(pool: NodePool) -> bool:
    """Whether Karpenter has looked at this very generation: it puts it on each of its conditions.

    Karpenter 1.0 puts none there: that it has looked at the pool at all is then all that can be known.
    """
    conditions = pool.status.conditions or ()
    told = (condition.observed_generation for condition in conditions if condition.observed_generation)
    return bool(conditions) and all(generation >= pool.metadata.generation for generation in told)


CONTESTED_WRITE_EVERY_S = 30.0
"""A field that somebody else writes is written at most this often."""
CONTESTED_FOR_S = 3 * CONTESTED_WRITE_EVERY_S
"""So long without a change by others after our write, and the field counts as ours alone again."""

RAISE_EVERY_S = 1.9
"""More room is given at every other tick of a ramp (they come once a second): each write is a request, and a third of
them met a Conflict, because Karpenter updates a busy NodePool's status several times a second (observed, 1.15.0, 150
nodes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What is remembered of one object; losing it costs one early write."""

    foreign_s: float | None = None
    """When a value of somebody else was last found where ours had been."""
    written_s: float | None = None
    """When we last wrote."""

    def heard(self, now_s: float, *, is_foreign: bool) -> Self:
        """After a look at the object."""
        return replace(self, foreign_s=now_s) if is_foreign else self

    def wrote(self, now_s: float) -> Self:
        """After a write was decided."""
        return replace(self, written_s=now_s)

    def may_raise(self, now_s: float) -> bool:
        """Whether the last write, be it one that met a conflict, was long enough ago to give more room."""
        return self.written_s is None or now_s - self.written_s >= RAISE_EVERY_S

    def is_contested(self, now_s: float) -> bool:
        """Whether somebody else wrote it of late."""
        return self.foreign_s is not None and now_s - self.foreign_s < CONTESTED_FOR_S

    def may_write(self, now_s: float) -> bool:
        """Whether another write would be no fight."""
        is_recent = self.written_s is not None and now_s - self.written_s < CONTESTED_WRITE_EVERY_S
        return not (self.is_contested(now_s) and is_recent)


QUIET_S = 30.0
"""A ceiling is handed back after so long without demand: a gang's pods do not all come in one moment."""
STUCK_S = 10.0
"""Room was there, nodes were waited for, and none was ordered for so long: the room is too small for what waits.
Karpenter's own batch takes at most 10 s."""
DRY_S = 30.0
"""The same at least, until the pool seems to be out of stock and another one serves what waits. Karpenter looks at a
waiting pod every 10 s and gathers for up to 10 s, then comes its round: on two busy cores most orders took 12 to 15 s
(observed, 1.15.0), and a round that is late would buy from the dearer pool. Three loops of cluster-autoscaler's."""
DRY_ANSWERS = 2.0
"""The same, in times of the slowest of the last answers: in large clusters a round alone may take a minute."""
ANSWERS = 5
"""So many of the last answers are remembered."""
LONGEST_ANSWER_S = 60.0
"""No answer counts as more: a stock-out is seen within two minutes whatever was before."""
STUCK_REST_S = 600.0
"""After all steps were tried in vain the waiting pods cannot be helped by room; tried again after so long."""
STEPS = 7
"""Each step doubles the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingNeed:
    """Whether a throttle's ceilings are needed; losing it costs QUIET_S."""

    quiet_since_s: float | None = None

    def looked(self, room: LeverBudget, now_s: float) -> Self:
        """After a look. While the view is incomplete nobody can say that nothing waits: the quiet time begins anew."""
        is_quiet = room.may_move and room.waiting <= 0
        return type(self)(quiet_since_s=_since(self.quiet_since_s, now_s) if is_quiet else None)

    def is_over(self, room: LeverBudget, now_s: float) -> bool:
        """Whether ceilings are to be handed back."""
        return room.is_stopping or (self.quiet_since_s is not None and now_s - self.quiet_since_s >= QUIET_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSearch:
    """Whether a pool orders what it has room for; losing it costs STUCK_S."""

    unmet_since_s: float | None = None
    newest_order_s: float = 0.0
    """Creation of the newest order, in wall-clock seconds: only compared with itself."""
    heard_s: float | None = None
    uptake: Uptake = field(default_factory=Uptake)
    answers: tuple[float, ...] = ()
    """How long room that was seen stood until a machine was ordered, the last few."""

    def heard(self, newest_order_s: float, now_s: float, *, is_taken_up: bool = True) -> Self:
        """At a look: `newest_order_s` is when the newest machine was ordered, which ends the search.

        `is_taken_up` says whether the autoscaler has seen the room that it was given last. Nothing can be too small
        before it was seen: until then no time passes, and an autoscaler that is away is given no more room at all.
        """
        uptake = self.uptake.looked(now_s, is_taken_up=is_taken_up)
        since_s = self.unmet_since_s
        if since_s is not None and not is_taken_up and self.heard_s is not None:
            since_s = min(now_s, since_s + now_s - self.heard_s)
        is_order = newest_order_s > self.newest_order_s
        answers = self.answers
        if is_order and since_s is not None:
            # One that came when the pool already counted as dry may be stock that came back: it adds no more than that.
            answers = (*answers, min(now_s - since_s, self.dry_after_s, LONGEST_ANSWER_S))[-ANSWERS:]
        return replace(
            self,
            answers=answers,
            unmet_since_s=None if is_order or uptake.is_late(now_s) else since_s,
            newest_order_s=max(newest_order_s, self.newest_order_s),
            heard_s=now_s,
            uptake=uptake,
        )

    def waited(self, now_s: float, *, is_unmet: bool) -> Self:
        """After it was decided whether the pool has room for something that waits."""
        return replace(self, unmet_since_s=_since(self.unmet_since_s, now_s) if is_unmet else None)

    def unmet_s(self, now_s: float) -> float:
        """For how long nodes have been waited for without one being ordered."""
        return 0.0 if self.unmet_since_s is None else now_s - self.unmet_since_s

    @property
    def dry_after_s(self) -> float:
        """How long a pool may order nothing before it seems to be out of stock: longer than its slow answers."""
        return max(DRY_S, DRY_ANSWERS * max(self.answers, default=0.0))

    def is_dry(self, now_s: float) -> bool:
        """Whether so much time has passed that the pool seems to be out of stock, or its room too small."""
        return self.unmet_s(now_s) >= self.dry_after_s

    def step(self, now_s: float) -> int:
        """How often the room is doubled: 0 at first and after all was in vain, up to STEPS in between."""
        step = int(self.unmet_s(now_s) % STUCK_REST_S / STUCK_S)
        return step if step <= STEPS else 0


def _since(since_s: float | None, now_s: float) -> float:
    return now_s if since_s is None else since_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMemory:
    """What is remembered of one object with a ceiling; a fresh one costs time and never a user's value."""

    contest: Contest = field(default_factory=Contest)
    search: RoomSearch = field(default_factory=RoomSearch)
    uptake: Uptake = field(default_factory=Uptake)
    mark: SavedLimits | None = None
    """As we wrote it last: it goes back on an object that lost its annotation while values of ours stand. None while
    nothing of ours is in force."""
    marked_uid: str | None = None
    """Of the object that bears it; None for one that we were about to make. Another one of its name is the user's."""
    was_marked: bool = False
    """Whether the annotation stood there at the last look, on a version that we were not giving back."""
    given_back: str = ""
    """The version on which giving back was decided last: where its annotation goes, that is our doing."""


OwnMemory = TypeVar("OwnMemory", bound=ObjectMemory)
Decided = tuple[LeverDecision, OwnMemory]


@dataclass(frozen=True, kw_only=True)
class ObjectCeiling(ABC, Generic[Limited, OwnMemory]):
    """One object that bears a ceiling, at one moment, and the steps of its decision.

    They are the same for every kind: leave alone what is not ours to move, hand back what is not needed, touch nothing
    while blind, else write the ceiling together with the user's value, and say how far it can be trusted. A kind says
    how large the ceiling is (`wanted`), why (`reason`), and what else is its own; what it leaves out is as usual.
    """

    KIND: ClassVar[KindNames]
    LIMITS: ClassVar[tuple[str, ...]]
    """Where the limits stand on the object."""
    UNIT: ClassVar[tuple[str, str]]
    """The limit that tells the size of a ceiling, and what it counts."""
    SHOWN_AS: ClassVar[Mapping[str, str]] = {}
    """Other names of limits, as users see them."""

    thing: Limited | None
    """None: there is no such object yet."""
    room: LeverBudget
    holder: Holder
    now_s: float
    is_over: bool
    """Whether ceilings are to be handed back."""
    memory: OwnMemory

    # --- what a kind says ---

    @abstractmethod
    def wanted(self) -> tuple[Resources, Resources]:
        """The ceiling without the user's own limits, and the usage: room for that is never put off."""

    @abstractmethod
    def reason(self, new: SavedLimits, ceiling: str) -> Because:
        """Why the ceiling is what it is; `new` is the mark to write, `ceiling` the same in words."""

    @property
    def key(self) -> ObjectKey:
        """The object's namespace and name."""
        assert self.thing is not None, "a kind whose object need not be there says its name"
        return ObjectKey(self.thing.metadata.namespace, self.thing.metadata.name)

    @property
    def api_version(self) -> str:
        """The version in which it is written."""
        return self.thing.api_version if self.thing is not None else ""

    @property
    def limits(self) -> Mapping[str, Any] | None:
        """The limits that stand on the object; None where there is no list of them."""
        return self.thing.limits if self.thing is not None else None

    def refusal(self) -> StateAndReason | None:
        """Why the object is left alone; None where it is ours to move."""
        return held_by_newer(self.thing.metadata, self.holder) if self.thing is not None else None

    def refused_memory(self) -> OwnMemory:
        """What is remembered of an object that is left alone."""
        return replace(self.memory, mark=None)

    def misfit(self) -> StateAndReason | None:
        """Why an object of ours to move cannot bear our ceiling; None where it can."""
        return None

    @abstractmethod
    def handed_back_memory(self) -> OwnMemory:
        """What is remembered when nothing of ours is in force any more."""

    def heard(self) -> OwnMemory:
        """The memory after a look at what others did, where a ceiling is needed."""
        return self.memory

    def blind(self) -> Decided[OwnMemory]:
        """Nothing is raised and nothing is lowered."""
        return self.decision(self.shown, (LeverState.PENDING, because(LeverReason.VIEW_INCOMPLETE))), self.memory

    @property
    def shown(self) -> SavedLimits | None:
        """The limits that users see while nothing can be decided."""
        return self.kept

    def trouble(self) -> StateAndReason | None:
        """What is wrong whatever stands there."""
        return None

    def exception(self, new: SavedLimits, reason: Because) -> StateAndReason | None:
        """The state of a ceiling in force, where not as usual."""
        return None

    @property
    def is_unseen(self) -> bool:
        """Whether nothing of ours stood at this look, so that nobody can have taken it up."""
        return not self.kept.ceiling

    @property
    def is_other(self) -> bool:
        """Whether more than the limits has to be put right."""
        return False

    def besides(self, new: SavedLimits) -> Mapping[str, Any]:
        """What is written into `spec` besides the limits."""
        return {}

    def remembered(self, new: SavedLimits, *, is_written: bool) -> OwnMemory:
        """What is remembered of the kind's own when `new` is to stand."""
        return self.memory

    # --- the mark ---

    @property
    def remembered_mark(self) -> SavedLimits | None:
        """As we wrote it last; none of another object that bears the name now."""
        is_same = self.thing is None or self.memory.marked_uid == self.thing.metadata.uid
        return self.memory.mark if is_same else None

    @cached_property
    def mark(self) -> SavedLimits | None:
        """The mark on the object, or the one we remember: the object is gone, or its annotation."""
        known, thing = self.remembered_mark, self.thing
        if thing is None:
            return known
        if (mark := read_saved(thing.metadata)) is not None or known is None:
            return mark
        return standing(known, thing)

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else changed a value of ours, or the service wrote it in the name of another Lease.

        Two installations that both live would each take the object back at every look.
        """
        if self.thing is None:
            return False
        if (mark := read_saved(self.thing.metadata)) is not None:
            is_of_another = not is_held_by(self.holder.lease, self.thing.metadata.annotations)
            return is_of_another or bool(foreign(mark, self.limits or {}))
        known = self.remembered_mark if self.memory.was_marked else None
        # Our annotation went, and a value of ours with it: somebody replaces the object as a whole.
        return known is not None and not known.ceiling.keys() <= (self.mark.ceiling.keys() if self.mark else set())

    @cached_property
    def kept(self) -> SavedLimits:
        """The mark as it has to be now."""
        if self.thing is None:
            return SavedLimits(original={}, ceiling={}, is_made=True)
        return taken_in(self.mark, self.limits, self.thing.metadata.managed_fields, self.LIMITS)

    @property
    def _is_in_force(self) -> bool:
        """Whether our annotation stands there, and is to stay as far as we know."""
        if self.thing is None or self.thing.metadata.resource_version == self.memory.given_back:
            return False
        return read_saved(self.thing.metadata) is not None

    @property
    def ceiling_in_force(self) -> Resources:
        """Our values on the object; raises QuantityError."""
        return {name: amount_of(value) for name, value in self.kept.ceiling.items()}

    # --- the steps ---

    def decided(self) -> Decided[OwnMemory]:
        """What to write on it now, what to tell, and what to remember."""
        if left_alone := self._left_alone():
            return left_alone
        return replace(self, memory=self.heard())._in_force()

    def _left_alone(self) -> Decided[OwnMemory] | None:
        """The same where no ceiling is to stand; None where one is."""
        if refusal := self.refusal():
            return self.decision(None, refusal), self.refused_memory()
        if self.thing is not None and self.mark is None and is_unreadable(self.thing.metadata):
            return self.decision(None, (LeverState.REFUSED, because(LeverReason.ORIGINAL_UNREADABLE))), self.memory
        if misfit := self.misfit():
            return self._given_back(misfit, LeverReason.STOPPING, replace(self.memory, mark=None))
        if self.is_over or (self.mark is None and self.room.waiting <= 0):
            reason = LeverReason.STOPPING if self.room.is_stopping else LeverReason.NOTHING_WAITS
            return self._given_back((LeverState.HANDED_BACK, because(reason)), reason, self.handed_back_memory())
        return None

    def _given_back(self, state: StateAndReason, reason: LeverReason, memory: OwnMemory) -> Decided[OwnMemory]:
        """Nothing of ours is to stand there; the user's values are remembered on their way back, as a call may fail."""
        writes = restore(self.thing, reason, self.mark) if self.thing is not None else ()
        if writes and self.thing is not None:
            mark = msgspec.structs.replace(self.kept, ceiling={})
            metadata = self.thing.metadata
            memory = replace(memory, mark=mark, marked_uid=metadata.uid, given_back=metadata.resource_version)
        return self.decision(None, state, writes), memory

    def _in_force(self) -> Decided[OwnMemory]:
        if not self.room.may_move:
            return self.blind()
        try:
            wanted, usage = self.wanted()
            if not self.memory.contest.may_raise(self.now_s):
                wanted = unraised(wanted, self.ceiling_in_force, usage)
            ceiling = clamped(wanted, self.kept, self.limits or {})
        except QuantityError as error:
            unreadable = because(LeverReason.LIMIT_UNREADABLE, value=str(error))
            return self.decision(self.shown, (LeverState.REFUSED, unreadable)), self.memory
        fields = self.thing.metadata.managed_fields if self.thing is not None else ()
        new = with_ceiling(self.kept, ceiling, self.limits, fields, self.LIMITS)
        name, what = self.UNIT
        # A limit of the user's that is lower is not ours, and stands all the same.
        text = f"{new.ceiling.get(name, (self.limits or {}).get(name, 'none'))} {what}"
        reason = self.reason(new, text)
        state = self._state(new, reason, text)
        contest = self.memory.contest
        is_written = not self._is_fulfilled(new) and contest.may_write(self.now_s)
        memory = replace(
            self.remembered(new, is_written=is_written),
            mark=new if new.ceiling else None,
            marked_uid=self.thing.metadata.uid if self.thing is not None else None,
            was_marked=self._is_in_force,
            contest=contest.wrote(self.now_s) if is_written else contest,
        )
        if not is_written:
            return self.decision(new, state), memory
        # One apply with the ceiling and the value to restore: neither is ever there without the other.
        metadata = marked(self.thing.metadata if self.thing is not None else None, self.key.name, new, self.holder)
        body: dict[str, Any] = {"apiVersion": self.api_version, "kind": self.KIND.kind, "metadata": metadata}
        place = body
        for part in self.LIMITS:
            place = place.setdefault(part, {})
        place |= new.ceiling
        if besides := self.besides(new):
            body["spec"] |= besides
        write = LeverWrite(
            api_version=self.api_version,
            kind=self.KIND.kind,
            key=self.key,
            how=How.APPLY,
            body=body,
            because=reason,
            # Where there seems to be none, the user may be making one just now.
            is_forced=self.thing is not None,
        )
        return self.decision(new, state, (write,)), memory

    def _state(self, new: SavedLimits, reason: Because, text: str) -> StateAndReason:
        """The state and its reason; `new` is what is to stand there."""
        uptake, now_s = self.memory.uptake, self.now_s
        if trouble := self.trouble():
            return trouble
        if self.memory.contest.is_contested(now_s):
            return LeverState.CONTESTED, because(LeverReason.CONTESTED, period=int(CONTESTED_WRITE_EVERY_S))
        if not new.ceiling:
            return LeverState.HANDED_BACK, reason
        if exception := self.exception(new, reason):
            return exception
        if uptake.is_late(now_s):
            waited = round(uptake.waited_s(now_s))
            return LeverState.UNCONFIRMED, because(LeverReason.LEVER_UNCONFIRMED, ceiling=text, waited=waited)
        if self.is_unseen or uptake.waiting_since_s is not None:
            return LeverState.PENDING, because(LeverReason.NOT_TAKEN_UP_YET, ceiling=text)
        return LeverState.CONFIRMED, reason

    def _is_fulfilled(self, new: SavedLimits) -> bool:
        """Whether the object already says all of it, or there is nothing to say: the user's own limits are lower."""
        if self.thing is None:
            return False
        metadata = self.thing.metadata
        is_untouched = not new.ceiling and THROTTLE_LABEL not in metadata.labels
        stands = (self.limits or {}).items() >= new.ceiling.items() and not self.is_other
        return is_untouched or (stands and is_marked_so(metadata, new, self.holder))

    def decision(
        self, mark: SavedLimits | None, state: StateAndReason, writes: tuple[LeverWrite, ...] = ()
    ) -> LeverDecision:
        """The state in which the object is, and its writes; without a mark nothing of ours is in force."""
        limits = (mark.ceiling, mark.original) if mark is not None else ({}, {})
        ceiling, original = (
            ", ".join(
                f"{self.SHOWN_AS.get(name, name)} {'none' if (value := values.get(name)) is None else value}"
                for name in sorted(limits[0])
            )
            for values in limits
        )
        return LeverDecision(
            name=f"{self.KIND.kind}/{self.key}",
            state=state[0],
            because=state[1],
            ceiling=ceiling,
            original=original,
            writes=writes,
        )


class CeilingLever(Lever[Settings, Remembered], Generic[Settings, Remembered, Limited]):
    """Bounds what an autoscaler may order, by a limit on objects of one kind."""

    PACES: ClassVar[PacedAutoscaler]
    OBJECTS: type[Limited]
    """What the limit stands on."""

    def can_act(self, scene: LeverScene) -> bool:
        """Whether anything is there that it could bound."""
        return bool(scene.of(self.OBJECTS))

    @abstractmethod
    def moves(self, thing: Limited, settings: Settings, nodes: LabelSelector) -> bool:
        """Whether a throttle with these settings, which selects `nodes`, sets the limit on this object."""

    @abstractmethod
    def undecided(self, keys: Collection[ObjectKey], memory: Remembered, before: Remembered) -> Remembered:
        """The memory where what was decided for these objects is not written: of them it is what it was `before`."""

    def owner(self, thing: Limited, throttles: Iterable[JoinThrottle]) -> str | None:
        """The first of the throttles that moves the object, by name; None: no one does."""
        for throttle in throttles:
            settings = self.settings(throttle.spec.levers)
            if settings is not None and self.moves(thing, settings, throttle.spec.nodes):
                return throttle.metadata.name
        return None

    def own(self, context: LeverContext) -> tuple[tuple[Limited, ...], tuple[LeverDecision, ...]]:
        """The objects that this throttle moves, and what is told of those that are an older one's."""
        settings = self.stated(context)
        own: list[Limited] = []
        others: list[LeverDecision] = []
        for thing in context.scene.of(self.OBJECTS):
            if self.moves(thing, settings, context.throttle.spec.nodes):
                owner = self.owner(thing, context.older)
                own += [thing] if owner is None else []
                others += [] if owner is None else [left_to(owner, name_of(thing))]
        return tuple(own), tuple(others)


def name_of(thing: LimitedObject) -> str:
    """As the status names the object: Kind/name, or Kind/namespace/name."""
    place = f"{thing.metadata.namespace}/" if thing.metadata.namespace else ""
    return f"{thing.NAMES.kind}/{place}{thing.metadata.name}"


def absent(
    kind: str, names: Iterable[object], there: Collection[object], reason: LeverReason, context: LeverContext
) -> list[LeverDecision]:
    """What to say of names under which nothing is: a typing error would pace nothing, and nobody would know."""
    why = because(reason)
    return [
        LeverDecision(name=f"{kind}/{name}", state=LeverState.REFUSED, because=why)
        for name in names
        if name not in there and context.room.may_move
    ]


def left_to(owner: str, name: str) -> LeverDecision:
    """What is told of an object that is an older throttle's, `name` as the status names it."""
    why = because(LeverReason.OTHER_THROTTLE, throttle=owner)
    return LeverDecision(name=name, state=LeverState.REFUSED, because=why)
