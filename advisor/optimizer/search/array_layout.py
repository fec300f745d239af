"""Slots: where compiled kernels find what, by name. `at[slots.PLACE]` is where the places of containers begin.

Names of sizes are counts; the others where an array begins among the numbers or whole numbers of a State, and are
those of advisor.optimizer.problem, or stand below.
"""

NODES = 0
CONTAINERS = 1
COLUMNS = 2
APPS = 3
SEATS = 4
"""Width of `seat`."""
LOCATIONS = 5
HOODS = 6
SITES = 7
EXCESSES = 8
BALANCES = 9
CURVES = 10
HARMS = 11
MAX_MOVES = 12
USE = 13
"""(d, c) each row once that a container takes."""
LIMIT = 14
"""(s, c) of each shape of nodes capacity and what sums of decimals may exceed it by."""
CAPACITY = 15
EXCESS_WEIGHT = 16
SAFE = 17
RATIO = 18
BALANCE_WEIGHT = 19
CONSTANT = 20
OWN = 21
HARM_WEIGHT = 22
MOVE_COST = 23
TRIP = 24
LOAD = 25
"""(n, c) what the containers of each node take."""
TAKEN = 26
"""(n, c) load, and in held columns what those who left still take."""
COST = 27
"""(n,) of each node's terms."""
NUMBER = 28
"""(2,) cost of the assignment, and of the best one."""
ROW = 29
"""(ROWS, c) sums that a move would lead to."""
HELD = 30
APP = 31
START = 32
ALIKE = 33
PAIR_AT = 34
"""(a + 1,) where an app's pairs begin."""
PAIR_OTHER = 35
PAIR_MOST_OTHER = 36
PAIR_MOST_SELF = 37
LOCATION = 38
SPREAD = 39
NEIGHBOURHOOD = 40
NEEDS_AT = 41
NEEDS = 42
NEEDED_AT = 43
NEEDED = 44
EXCESS_COLUMN = 45
FIRST = 46
SECOND = 47
SHAPE = 48
"""(n,) which row of capacity, limit, safe and weight of harm is a node's."""
PRESSURE = 49
SENSITIVITY = 50
SITE = 51
PLACE = 52
"""(k,) node of each container."""
SEAT = 53
"""(n, w) containers of each node, the first `count` of them."""
SEAT_APP = 54
"""(n, w) their apps."""
POSITION = 55
"""(k,) among the seats of its node."""
COUNT = 56
"""(n,) containers of each node."""
AT_LOCATION = 57
"""(a, l) containers of each app at each location."""
SPREAD_NOW = 58
"""(a,) locations that each app is at."""
IN_HOOD = 59
"""(a, h) containers of each app in each neighbourhood."""
APP_MOVED = 60
"""(a,) containers of each app that moved."""
WITH_MOVED = 61
"""(k + 1,) apps by how many of their containers moved."""
INFO = 62
"""(3,) containers moved, the most of any app, and containers that differ from the best assignment's."""
BEST = 63
"""(k,) the best assignment."""
CHANGED = 64
"""(k,) containers that may differ from it, the first CHANGED of them."""
IS_CHANGED = 65
"""(k,) whether a container is among these."""
TRIES = 66
"""Candidate nodes tried for a container that must move, out of many."""
NONE = 67
"""-1, no container and no node: of a constant the compiler makes one more kernel, of each that it is given to."""
KIND = 68
"""(k,) which row of use is a container's."""
PRICED = 69
"""Columns that cost something; they come first."""
SIZE = 70
