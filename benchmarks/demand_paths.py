"""Demand by path: growth at a rate that is not known, a weekly season, heavy-tailed noise and events of known dates."""

import numpy as np

from advisor.purchase.instance import NO_LIMIT, Floats, Ints, MachineTypes, Shapes, instance
from advisor.purchase.orders.order_problem import Demand, OrderProblem, OrderTerms, Racks, order_problem

DAYS, CLASSES = 30, 3
GROWTH = np.array([0.050, 0.070, 0.040])
"""Mean growth by month of each class; paths differ from it together and apart."""
SPREAD_TOGETHER, SPREAD_APART = 0.015, 0.015
WEEK = np.array([0.0, 0.02, 0.03, 0.02, 0.0, -0.15, -0.18])
NOISE, TAIL = 0.02, 4.0
"""Scale and degrees of freedom of Student's t by day."""
EVENTS = {75: 0.15, 140: 0.10}
"""Mean uplift by day; it lasts three days and concerns the first class."""
OF_CLASS = np.array([0, 0, 1, 1, 2])
"""Class of each shape."""
PODS = np.array([40, 14, 24, 10, 16])


def multipliers(rng: np.random.Generator, paths: int, periods: int) -> Floats:
    """(w, t, c) largest demand in each month over the demand of today, by path and class."""
    days = np.arange(periods * DAYS)
    rate = GROWTH + rng.normal(0, SPREAD_TOGETHER, (paths, 1)) + rng.normal(0, SPREAD_APART, (paths, CLASSES))
    log = rate[:, None, :] * (days / DAYS)[None, :, None] + WEEK[days % 7][None, :, None]
    log = log + NOISE * rng.standard_t(TAIL, (paths, len(days), CLASSES))
    for day, uplift in EVENTS.items():
        if day < len(days):
            log[:, day : day + 3, 0] += rng.lognormal(np.log(uplift), 0.4, (paths, 1))
    found: Floats = np.exp(log).reshape(paths, periods, DAYS, CLASSES).max(axis=2)
    return found


def pods_of(multiplier: Floats) -> Ints:
    """(w, t, n) pods by shape."""
    return np.ceil(PODS * multiplier[:, :, OF_CLASS]).astype(np.int64)


def site(pods: Ints) -> OrderProblem:
    """Three zones with a rack each, half full, three SKUs, and a class that survives the loss of a zone."""
    n, periods = len(PODS), pods.shape[1]
    shapes = Shapes(
        cpu=np.array([2, 4, 4, 8, 6]) * 1_000,
        memory=np.array([4, 8, 24, 48, 16]) * 1_024,
        devices=np.array([0, 0, 0, 0, 1]),
        share=np.zeros(n, np.int64),
        pods=np.zeros(n, np.int64),
    )
    types = MachineTypes(
        name=("c16", "m16", "g16"),
        cpu=np.array([16, 16, 24]) * 1_000,
        memory=np.array([32, 96, 128]) * 1_024,
        devices=np.array([0, 0, 4]),
        price=np.array([310.0, 420.0, 1_900.0]),
        most=np.full(3, NO_LIMIT),
    )
    terms = OrderTerms(
        outlay=types.price * 36,
        lead=np.array([1, 1, 2]),
        lot=np.array([1, 1, 1]),
        first=np.zeros(3, np.int64),
        last=np.full(3, periods),
        power_w=np.array([400, 450, 1_800]),
        units=np.array([1, 1, 2]),
        ports=np.array([1, 1, 2]),
        speed=np.zeros(3, np.int64),
    )
    racks = Racks(
        name=("a1", "b1", "c1"),
        domain=np.arange(3),
        domains=("zone a", "zone b", "zone c"),
        power_w=np.full(3, 20_000),
        units=np.full(3, 40),
        ports=np.full((3, 1), 48),
    )
    standing = np.zeros((3, 3, periods), np.int64)
    standing[:] = np.array([3, 6, 2])[:, None, None]
    return order_problem(
        instance(shapes, types), terms, racks, standing, Demand(pods, OF_CLASS == 1, np.ones(n, np.int64))
    )
