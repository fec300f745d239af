"""Moves: what a move would cost, whether it may be, and doing it. Compiled kernels; `.py_func` is their Python.

A move is of one container to another node, or of two at once: the second leaves the node that the first one enters,
for the first one's node (a swap) or a third one (a chain). All kernels read and change a State, whose three parts they
are given; see there what each position means.
"""

from math import factorial

import numpy as np

from advisor.optimizer.problem import NOWHERE, STEEPEST, Floats, Ints
from advisor.optimizer.search import array_layout as slots
from advisor.optimizer.search.numba_jit import compiled, vectorised
from advisor.optimizer.search.state import (
    BEST,
    CHANGED,
    EACH,
    FIXED,
    HOMELESS,
    KNEE,
    MAX_MOVED,
    MAX_OF_APP,
    MOVED,
    TOTAL,
    USED,
)

NO_CONTAINER = -1
FORBIDDEN = np.inf
T3, T4, T5, T6, T7, T8, T9, T10, T11, T12, T13, T14, T15, T16, T17 = (1.0 / factorial(n) for n in range(3, 18))
"""Coefficients of exp."""
BLOCK = 32
"""Columns that are compared at once. Where there are more, whether there is room is asked last."""


@compiled
def node_cost(at: Ints, whole: Ints, real: Floats, node: int, row: int, count: int) -> float:
    """Terms of one node whose containers together take a row, which begins there; see advisor.optimizer.objective."""
    total, shape = 0.0, whole[at[slots.SHAPE] + node]
    safe = at[slots.SAFE] + shape * at[slots.EXCESSES]
    for e in range(at[slots.EXCESSES]):
        above = real[row + whole[at[slots.EXCESS_COLUMN] + e]] - real[safe + e]
        if above > 0.0:
            total += real[at[slots.EXCESS_WEIGHT] + e] * above
    there = at[slots.CAPACITY] + shape * at[slots.COLUMNS]
    for b in range(at[slots.BALANCES]):
        first, second = whole[at[slots.FIRST] + b], whole[at[slots.SECOND] + b]
        missing = real[at[slots.RATIO] + b] * (real[there + first] - real[row + first]) - (
            real[there + second] - real[row + second]
        )
        if missing > 0.0:
            total += real[at[slots.BALANCE_WEIGHT] + b] * missing
    if count > 0:
        total += real[at[slots.CONSTANT] + USED]
        if at[slots.CURVES] > 0:
            height = real[at[slots.CONSTANT] + FIXED] + real[at[slots.CONSTANT] + EACH] * count
            total += height * curve_height(at, whole, real, node, row)
    weight = at[slots.HARM_WEIGHT] + shape * at[slots.HARMS]
    for h in range(at[slots.HARMS]):
        together = real[row + whole[at[slots.PRESSURE] + h]] * real[row + whole[at[slots.SENSITIVITY] + h]]
        total += real[weight + h] * (together - real[row + whole[at[slots.OWN] + h]])
    return total


@vectorised
def curve_height(at: Ints, whole: Ints, real: Floats, node: int, row: int) -> float:
    """Mean over the profile, whose columns come first, of exp(max(0, load / capacity - knee)) - 1.

    Up to 1 above the knee it is the Taylor polynomial of degree 17, off by less than 2e-16: unlike the library's
    function it is computed for several times at once.
    """
    there, knee = (
        at[slots.CAPACITY] + whole[at[slots.SHAPE] + node] * at[slots.COLUMNS],
        real[at[slots.CONSTANT] + KNEE],
    )
    load, capacity = real[row : row + at[slots.CURVES]], real[there : there + at[slots.CURVES]]
    total, far = 0.0, 0
    for t in range(len(load)):
        above = load[t] / capacity[t] - knee
        x = above if above > 0.0 else 0.0
        far += x > 1.0
        term = T17
        term = T16 + term * x
        term = T15 + term * x
        term = T14 + term * x
        term = T13 + term * x
        term = T12 + term * x
        term = T11 + term * x
        term = T10 + term * x
        term = T9 + term * x
        term = T8 + term * x
        term = T7 + term * x
        term = T6 + term * x
        term = T5 + term * x
        term = T4 + term * x
        term = T3 + term * x
        term = 0.5 + term * x
        term = 1.0 + term * x
        total += term * x
    if far > 0:
        total = 0.0
        for t in range(len(load)):
            above = load[t] / capacity[t] - knee
            total += np.expm1(min(above, STEEPEST)) if above > 0.0 else 0.0
    mean: float = total / len(load)
    return mean


@compiled
def node_costs(at: Ints, whole: Ints, real: Floats) -> None:
    """Compute every node's cost anew."""
    for node in range(at[slots.NODES]):
        settle(at, whole, real, node)


@compiled
def fits(taken: Floats, use: Floats, limit: Floats) -> bool:
    """Whether no column exceeds its limit."""
    for begin in range(0, len(taken), BLOCK):
        over = 0
        for j in range(begin, min(begin + BLOCK, len(taken))):
            over += taken[j] + use[j] > limit[j]
        if over > 0:
            return False
    return True


@compiled
def has_room(at: Ints, whole: Ints, real: Floats, who: int, node: int, leaver: int) -> bool:
    """Whether every column of a node takes a container once another one left."""
    columns, enters_home = at[slots.COLUMNS], whole[at[slots.START] + who] == node
    leaves_home = leaver != NO_CONTAINER and whole[at[slots.START] + leaver] == node
    taken, use = at[slots.TAKEN] + node * columns, use_of(at, whole, who)
    limit = at[slots.LIMIT] + whole[at[slots.SHAPE] + node] * columns
    if leaver == NO_CONTAINER and not enters_home:
        return fits(real[taken : taken + columns], real[use : use + columns], real[limit : limit + columns])
    gone = use if leaver == NO_CONTAINER else use_of(at, whole, leaver)
    for j in range(columns):
        held = whole[at[slots.HELD] + j] != 0
        more = 0.0 if enters_home and held else real[use + j]
        less = 0.0 if leaver == NO_CONTAINER or (leaves_home and held) else real[gone + j]
        if more > 0.0 and real[taken + j] + more - less > real[limit + j]:
            return False
    return True


@compiled
def count_on(at: Ints, whole: Ints, node: int, app: int) -> int:
    """Containers of an app on a node."""
    found, begin = 0, at[slots.SEAT_APP] + node * at[slots.SEATS]
    for seat in range(begin, begin + whole[at[slots.COUNT] + node]):
        found += whole[seat] == app
    return found


@compiled
def may_join(at: Ints, whole: Ints, who: int, node: int, leaver: int) -> bool:
    """Whether a container may be with those on a node once another one left."""
    app = whole[at[slots.APP] + who]
    gone = whole[at[slots.APP] + leaver] if leaver != NO_CONTAINER else NO_CONTAINER
    if whole[at[slots.COUNT] + node] - (leaver != NO_CONTAINER) >= at[slots.SEATS]:
        return False
    alike = count_on(at, whole, node, app) - (gone == app)
    if alike >= whole[at[slots.ALIKE] + app]:
        return False
    for entry in range(whole[at[slots.PAIR_AT] + app], whole[at[slots.PAIR_AT] + app + 1]):
        other = whole[at[slots.PAIR_OTHER] + entry]
        others = count_on(at, whole, node, other) - (gone == other)
        if others > 0 and (
            others > whole[at[slots.PAIR_MOST_OTHER] + entry] or alike >= whole[at[slots.PAIR_MOST_SELF] + entry]
        ):
            return False
    return True


@compiled
def change_moved(at: Ints, whole: Ints, who: int, source: int, target: int) -> None:
    """Count a container that goes from one node to another among the moved ones, or no longer."""
    start = whole[at[slots.START] + who]
    if start == NOWHERE:
        return
    step = (target not in (start, NOWHERE)) - int(source not in (start, NOWHERE))
    if step == 0:
        return
    app, most = whole[at[slots.APP] + who], at[slots.INFO] + MAX_MOVED
    whole[at[slots.INFO] + MOVED] += step
    before = whole[at[slots.APP_MOVED] + app]
    whole[at[slots.WITH_MOVED] + before] -= 1
    whole[at[slots.APP_MOVED] + app] = before + step
    whole[at[slots.WITH_MOVED] + before + step] += 1
    if before + step > whole[most] or (before == whole[most] and whole[at[slots.WITH_MOVED] + before] == 0):
        whole[most] = before + step


@compiled
def change_zones(at: Ints, whole: Ints, who: int, source: int, target: int) -> None:
    """Count a container at another location and in another neighbourhood."""
    app = whole[at[slots.APP] + who]
    if at[slots.LOCATIONS] > 0:
        row = at[slots.AT_LOCATION] + app * at[slots.LOCATIONS]
        if source != NOWHERE:
            old = row + whole[at[slots.LOCATION] + source]
            whole[old] -= 1
            whole[at[slots.SPREAD_NOW] + app] -= whole[old] == 0
        if target != NOWHERE:
            new = row + whole[at[slots.LOCATION] + target]
            whole[at[slots.SPREAD_NOW] + app] += whole[new] == 0
            whole[new] += 1
    if at[slots.HOODS] > 0:
        row = at[slots.IN_HOOD] + app * at[slots.HOODS]
        if source != NOWHERE:
            whole[row + whole[at[slots.NEIGHBOURHOOD] + source]] -= 1
        if target != NOWHERE:
            whole[row + whole[at[slots.NEIGHBOURHOOD] + target]] += 1


@compiled
def zones_allow(at: Ints, whole: Ints, who: int, source: int, target: int) -> bool:
    """Whether a container that went from one node to another broke neither its app's spread nor anybody's needs."""
    app = whole[at[slots.APP] + who]
    if (
        source != NOWHERE
        and at[slots.LOCATIONS] > 0
        and whole[at[slots.SPREAD_NOW] + app] < whole[at[slots.SPREAD] + app]
    ):
        return False
    if at[slots.HOODS] == 0:
        return True
    here = whole[at[slots.NEIGHBOURHOOD] + target]
    for entry in range(whole[at[slots.NEEDS_AT] + app], whole[at[slots.NEEDS_AT] + app + 1]):
        if whole[at[slots.IN_HOOD] + whole[at[slots.NEEDS] + entry] * at[slots.HOODS] + here] == 0:
            return False
    if source == NOWHERE:
        return True
    left = whole[at[slots.NEIGHBOURHOOD] + source]
    if whole[at[slots.IN_HOOD] + app * at[slots.HOODS] + left] > 0:
        return True
    for entry in range(whole[at[slots.NEEDED_AT] + app], whole[at[slots.NEEDED_AT] + app + 1]):
        if whole[at[slots.IN_HOOD] + whole[at[slots.NEEDED] + entry] * at[slots.HOODS] + left] > 0:
            return False
    return True


@compiled
def trip_cost(at: Ints, whole: Ints, real: Floats, who: int, source: int, target: int) -> float:
    """What going from one node to another adds to the container's own cost of having moved."""
    start, found = whole[at[slots.START] + who], 0.0
    if start == NOWHERE:
        return found
    if target not in (start, NOWHERE):
        found += real[at[slots.MOVE_COST] + who] + trip_between(at, whole, real, start, target)
    if source not in (start, NOWHERE):
        found -= real[at[slots.MOVE_COST] + who] + trip_between(at, whole, real, start, source)
    return found


@compiled
def trip_between(at: Ints, whole: Ints, real: Floats, start: int, target: int) -> float:
    """Cost of a move between the sites of two nodes."""
    if at[slots.SITES] == 0:
        return 0.0
    row = at[slots.TRIP] + whole[at[slots.SITE] + start] * at[slots.SITES]
    found: float = real[row + whole[at[slots.SITE] + target]]
    return found


@compiled
def add(made: Floats, now: Floats, more: Floats) -> None:
    """Write the sum of two rows into a third."""
    for j in range(len(made)):
        made[j] = now[j] + more[j]


@compiled
def subtract(made: Floats, now: Floats, less: Floats) -> None:
    """Write the difference of two rows into a third."""
    for j in range(len(made)):
        made[j] = now[j] - less[j]


@compiled
def use_of(at: Ints, whole: Ints, who: int) -> int:
    """Where the row begins of what a container takes."""
    begin: int = at[slots.USE] + whole[at[slots.KIND] + who] * at[slots.COLUMNS]
    return begin


@compiled
def filled(at: Ints, whole: Ints, real: Floats, row: int, node: int, enters: int, leaves: int) -> float:
    """What a node costs more that one container enters and another leaves, NO_CONTAINER where none does."""
    priced, count = at[slots.PRICED], whole[at[slots.COUNT] + node]
    load, made = at[slots.LOAD] + node * at[slots.COLUMNS], real[row : row + priced]
    now = real[load : load + priced]
    if enters == NO_CONTAINER:
        less = use_of(at, whole, leaves)
        subtract(made, now, real[less : less + priced])
        count -= 1
    elif leaves == NO_CONTAINER:
        use = use_of(at, whole, enters)
        add(made, now, real[use : use + priced])
        count += 1
    else:
        use, less = use_of(at, whole, enters), use_of(at, whole, leaves)
        add(made, now, real[use : use + priced])
        subtract(made, made, real[less : less + priced])
    more: float = node_cost(at, whole, real, node, row, count) - real[at[slots.COST] + node]
    return more


@compiled
def node_delta(at: Ints, whole: Ints, real: Floats, who: int, node: int, second: int, third: int) -> float:
    """What a move adds to the terms of nodes; see `delta`."""
    source = whole[at[slots.PLACE] + who]
    back = second != NO_CONTAINER and third == source
    row, columns, no_container = at[slots.ROW], at[slots.COLUMNS], at[slots.NONE]
    total = filled(at, whole, real, row, node, who, second)
    if source != NOWHERE:
        total += filled(at, whole, real, row + columns, source, second if back else no_container, who)
    else:
        total -= real[at[slots.CONSTANT] + HOMELESS]
    if second != NO_CONTAINER and not back:
        total += filled(at, whole, real, row + 2 * columns, third, second, no_container)
    return total


@compiled
def may_go(at: Ints, whole: Ints, real: Floats, who: int, node: int, second: int, third: int) -> bool:
    """Whether the nodes that a move enters have room and no container that must be apart; see `delta`."""
    if not has_room(at, whole, real, who, node, second) or not may_join(at, whole, who, node, second):
        return False
    if second == NO_CONTAINER:
        return True
    leaver = who if third == whole[at[slots.PLACE] + who] else at[slots.NONE]
    return has_room(at, whole, real, second, third, leaver) and may_join(at, whole, second, third, leaver)


@compiled
def delta(at: Ints, whole: Ints, real: Floats, who: int, node: int, second: int, third: int, limit: float) -> float:
    """What it would cost more that a container goes to a node.

    Args:
        at: see State.
        whole: see State; left as it was.
        real: see State; left as it was.
        who: goes.
        node: where it goes, another one than it is on.
        second: leaves that node; NO_CONTAINER without one.
        third: where the second goes.
        limit: of interest are moves that cost at most so much more.

    Returns:
        The difference of costs, FORBIDDEN where the move is, or where it certainly exceeds the limit.
    """
    wide = at[slots.COLUMNS] > BLOCK
    if not wide and not may_go(at, whole, real, who, node, second, third):
        return FORBIDDEN
    source, most_of_app = whole[at[slots.PLACE] + who], real[at[slots.CONSTANT] + MAX_OF_APP]
    total = node_delta(at, whole, real, who, node, second, third)
    total += trip_cost(at, whole, real, who, source, node)
    if second != NO_CONTAINER:
        total += trip_cost(at, whole, real, second, node, third)
    if total - 2 * most_of_app > limit or (wide and not may_go(at, whole, real, who, node, second, third)):
        return FORBIDDEN
    most, moved = whole[at[slots.INFO] + MAX_MOVED], whole[at[slots.INFO] + MOVED]
    shift(at, whole, who, source, node, second, third)
    total += most_of_app * (whole[at[slots.INFO] + MAX_MOVED] - most)
    allowed = whole[at[slots.INFO] + MOVED] <= max(moved, at[slots.MAX_MOVES]) and zones_allow(
        at, whole, who, source, node
    )
    if allowed and second != NO_CONTAINER:
        allowed = zones_allow(at, whole, second, node, third)
    if second != NO_CONTAINER:
        change_moved(at, whole, second, third, node)
        change_zones(at, whole, second, third, node)
    change_moved(at, whole, who, node, source)
    change_zones(at, whole, who, node, source)
    return total if allowed else FORBIDDEN


@compiled
def shift(at: Ints, whole: Ints, who: int, source: int, node: int, second: int, third: int) -> None:
    """Count who goes as moved and in other zones."""
    change_moved(at, whole, who, source, node)
    change_zones(at, whole, who, source, node)
    if second != NO_CONTAINER:
        change_moved(at, whole, second, node, third)
        change_zones(at, whole, second, node, third)


@compiled
def change_sums(at: Ints, whole: Ints, real: Floats, who: int, node: int, sign: float) -> None:
    """Add a container to what its node takes, or take it off."""
    at_home, columns = whole[at[slots.START] + who] == node, at[slots.COLUMNS]
    load, taken, use = at[slots.LOAD] + node * columns, at[slots.TAKEN] + node * columns, use_of(at, whole, who)
    for j in range(columns):
        real[load + j] += sign * real[use + j]
        if not (at_home and whole[at[slots.HELD] + j] != 0):
            real[taken + j] += sign * real[use + j]


@compiled
def leave(at: Ints, whole: Ints, real: Floats, who: int) -> None:
    """Take a container from its node's seats and sums."""
    node = whole[at[slots.PLACE] + who]
    if node == NOWHERE:
        return
    last, position = whole[at[slots.COUNT] + node] - 1, whole[at[slots.POSITION] + who]
    seat, seat_app = at[slots.SEAT] + node * at[slots.SEATS], at[slots.SEAT_APP] + node * at[slots.SEATS]
    moved = whole[seat + last]
    whole[seat + position], whole[seat_app + position] = moved, whole[at[slots.APP] + moved]
    whole[at[slots.POSITION] + moved] = position
    whole[at[slots.COUNT] + node] = last
    change_sums(at, whole, real, who, node, -1.0)


@compiled
def enter(at: Ints, whole: Ints, real: Floats, who: int, node: int) -> None:
    """Give a container a seat on a node, and add it to the sums."""
    position = whole[at[slots.COUNT] + node]
    whole[at[slots.SEAT] + node * at[slots.SEATS] + position] = who
    whole[at[slots.SEAT_APP] + node * at[slots.SEATS] + position] = whole[at[slots.APP] + who]
    whole[at[slots.POSITION] + who], whole[at[slots.PLACE] + who] = position, node
    whole[at[slots.COUNT] + node] = position + 1
    change_sums(at, whole, real, who, node, 1.0)


@compiled
def settle(at: Ints, whole: Ints, real: Floats, node: int) -> None:
    """Compute a node's cost anew."""
    load = at[slots.LOAD] + node * at[slots.COLUMNS]
    real[at[slots.COST] + node] = node_cost(at, whole, real, node, load, whole[at[slots.COUNT] + node])


@compiled
def go(at: Ints, whole: Ints, real: Floats, who: int, node: int, second: int, third: int, more: float) -> None:
    """Do a move that costs so much more."""
    source = whole[at[slots.PLACE] + who]
    shift(at, whole, who, source, node, second, third)
    leave(at, whole, real, who)
    if second != NO_CONTAINER:
        leave(at, whole, real, second)
        enter(at, whole, real, second, third)
        settle(at, whole, real, third)
        note(at, whole, second)
    enter(at, whole, real, who, node)
    settle(at, whole, real, node)
    if source != NOWHERE:
        settle(at, whole, real, source)
    note(at, whole, who)
    real[at[slots.NUMBER] + TOTAL] += more


@compiled
def lift(at: Ints, whole: Ints, real: Floats, who: int) -> None:
    """Take a container off its node, so that it is nowhere; what needs it there is not asked."""
    none = at[slots.NONE]
    source = whole[at[slots.PLACE] + who]
    more = (
        trip_cost(at, whole, real, who, source, none)
        + real[at[slots.CONSTANT] + HOMELESS]
        - real[at[slots.COST] + source]
    )
    most = whole[at[slots.INFO] + MAX_MOVED]
    shift(at, whole, who, source, none, none, none)
    leave(at, whole, real, who)
    whole[at[slots.PLACE] + who] = NOWHERE
    settle(at, whole, real, source)
    note(at, whole, who)
    more += real[at[slots.CONSTANT] + MAX_OF_APP] * (whole[at[slots.INFO] + MAX_MOVED] - most)
    real[at[slots.NUMBER] + TOTAL] += more + real[at[slots.COST] + source]


@compiled
def note(at: Ints, whole: Ints, who: int) -> None:
    """Remember that a container may be elsewhere than in the best assignment."""
    if whole[at[slots.IS_CHANGED] + who] == 0:
        whole[at[slots.IS_CHANGED] + who] = 1
        whole[at[slots.CHANGED] + whole[at[slots.INFO] + CHANGED]] = who
        whole[at[slots.INFO] + CHANGED] += 1


@compiled
def keep(at: Ints, whole: Ints, real: Floats) -> None:
    """Take the assignment for the best one."""
    for entry in range(at[slots.CHANGED], at[slots.CHANGED] + whole[at[slots.INFO] + CHANGED]):
        who = whole[entry]
        whole[at[slots.BEST] + who] = whole[at[slots.PLACE] + who]
        whole[at[slots.IS_CHANGED] + who] = 0
    whole[at[slots.INFO] + CHANGED] = 0
    real[at[slots.NUMBER] + BEST] = real[at[slots.NUMBER] + TOTAL]
