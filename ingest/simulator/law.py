"""Laws of interference: how hidden pressure turns into slowdown, and what the counters show of it. Kernel."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HIDDEN = ("cpu", "llc", "memory_bandwidth", "disk", "net")
"""Resources the built-in law presses on."""
TEAMS = 5
"""Apps belong to teams in turn."""
TASTE_SHAPE, TASTE_MEAN_LOG = 1.2, -0.2890398965921883
"""Of the gamma distribution of tastes; digamma(1.2) is the mean of its logarithm."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A CPU model and its node: capacities in usage's units."""

    name: str
    cores: float
    frequency_ghz: float
    memory_bytes: float
    memory_bandwidth_bytes_s: float
    llc_bytes: float
    nic_bytes_s: float
    disk_bytes_s: float
    disk_ios_s: float


PLATFORMS = (
    Platform("epyc-a", 32, 2.45, 128e9, 150e9, 128e6, 3.1e9, 2.0e9, 60e3),
    Platform("xeon-b", 40, 2.10, 192e9, 120e9, 60e6, 3.1e9, 1.5e9, 40e3),
    Platform("arm-c", 64, 2.60, 256e9, 200e9, 64e6, 6.2e9, 3.0e9, 90e3),
)


@dataclass(frozen=True, slots=True)
class Apps:
    """Hidden truth about apps, (apps,) or (apps, hidden resources) each.

    Args:
        demand: use at full load in usage's units: cores, LLC bytes, bytes/s of memory, disk and network.
        pressure: what of it presses on others; differs from demand by a factor that is not measured.
        sensitivity: slowdown - 1 at a pressure of one whole node.
        cpi: cycles per instruction when calm.
        rt_ms: response time when calm and idle; NaN for an app that does not report it.
        qps: requests/s at full load; NaN for an app that serves none.
        cpi_blind: CPI that does not show slowdown (spin locks, compilers).
        best_effort: BE, else LS.
    """

    demand: Floats
    pressure: Floats
    sensitivity: Floats
    cpi: Floats
    rt_ms: Floats
    qps: Floats
    cpi_blind: NDArray[np.bool_]
    best_effort: NDArray[np.bool_]


class Law(Protocol):
    """What the simulator needs to know about interference. Apps and platforms are numbers 0..a-1 and 0..p-1."""

    @property
    def apps(self) -> Apps:
        """The apps; `counters` shows them."""

    def slowdown(self, victim: Ints, neighbours: Floats, load: Floats, platform: Ints) -> Floats:
        """True slowdown of each victim.

        Args:
            victim: (n,) apps.
            neighbours: (n, apps) how many containers of each app run next to the victim, each counted by its load.
            load: (n,) the victim's load as a share of its peak.
            platform: (n,) platform of the node.

        Returns:
            (n,) ratios >= 1 to the app's baseline.
        """


@dataclass(frozen=True, slots=True)
class Likeness:
    """How much apps of a team are alike.

    Args:
        share: of the variance of the logarithm of an app's demands and tastes that its team explains, in [0, 1].
        demand: (teams, hidden resources) what the team's apps have in common, drawn as an app's own is.
        taste: the same of tastes.
    """

    share: float
    demand: Floats
    taste: Floats


def draw_likeness(share: float, rng: np.random.Generator) -> Likeness:
    """What the apps of each team have in common."""
    shape = (TEAMS, len(HIDDEN))
    return Likeness(share, rng.lognormal(0.0, 0.7, shape), rng.gamma(TASTE_SHAPE, 1.0, shape))


def draw_apps(count: int, rng: np.random.Generator, likeness: Likeness | None = None) -> Apps:
    """Random apps, a third of them BE; sensitivities follow own intensity in part only, and teams where they do."""
    best_effort = np.arange(count) % 3 == 2
    scale = np.array([2.0, 6e6, 5e9, 6e7, 9e7])
    use = rng.lognormal(0.0, 0.7, (count, len(HIDDEN)))
    use = use if likeness is None else _alike(use, likeness.demand, likeness.share, mean_log=0.0)
    demand = scale * use * np.where(best_effort, 1.6, 1.0)[:, None]
    demand[:, 0] = np.clip(demand[:, 0], 0.3, 8.0)
    intensity = demand / scale
    taste = rng.gamma(TASTE_SHAPE, 1.0, demand.shape)
    taste = taste if likeness is None else _alike(taste, likeness.taste, likeness.share, mean_log=TASTE_MEAN_LOG)
    own_taste = taste * np.array([0.9, 1.6, 1.4, 0.5, 0.5])
    reports_rt = ~best_effort
    serves = reports_rt | (np.arange(count) % 6 == 2)
    return Apps(
        demand=demand,
        pressure=demand * rng.lognormal(0.0, 0.2, demand.shape),
        sensitivity=0.3 * own_taste * (0.5 + 0.5 * np.sqrt(intensity)),
        cpi=rng.uniform(0.6, 2.2, count),
        rt_ms=np.where(reports_rt, rng.lognormal(2.0, 0.8, count), np.nan),
        qps=np.where(serves, rng.lognormal(5.0, 1.0, count), np.nan),
        cpi_blind=rng.random(count) < 0.15,
        best_effort=best_effort,
    )


def with_antagonist(apps: Apps) -> Apps:
    """The apps and one more, BE: it fills last-level cache and memory bandwidth, and is itself hardly slowed down."""
    heavy = np.array([[32.0, 90e6, 240e9, 3e9, 5e9]])
    return Apps(
        demand=np.vstack([apps.demand, heavy]),
        pressure=np.vstack([apps.pressure, heavy]),
        sensitivity=np.vstack([apps.sensitivity, np.full(heavy.shape, 0.05)]),
        cpi=np.append(apps.cpi, 1.5),
        rt_ms=np.append(apps.rt_ms, np.nan),
        qps=np.append(apps.qps, np.nan),
        cpi_blind=np.append(apps.cpi_blind, False),
        best_effort=np.append(apps.best_effort, True),
    )


def _alike(own: Floats, of_team: Floats, share: float, *, mean_log: float) -> Floats:
    """(n, k) values of which teams explain a share; mean and variance of their logarithms stay."""
    apart, common = np.log(own) - mean_log, np.log(of_team) - mean_log
    team = np.arange(len(own)) % len(of_team)
    return np.asarray(np.exp(mean_log + np.sqrt(1.0 - share) * apart + np.sqrt(share) * common[team]))


@dataclass(frozen=True, slots=True)
class SaturatingLaw:
    """Each resource's harm saturates, harms add up, and a busy victim is slowed down more.

    slowdown = 1 + (0.6 + 0.4 load) * sum_r sensitivity_r * c_r * (1 - exp(-pressure_r / c_r)).
    Neither a tree nor the form that the models fit.
    """

    apps: Apps
    saturation: tuple[float, ...] = (0.8, 0.6, 0.9, 0.7, 0.7)

    def slowdown(self, victim: Ints, neighbours: Floats, load: Floats, platform: Ints) -> Floats:
        """See Law."""
        limit = np.array(self.saturation)
        share = neighbours @ self.apps.pressure / capacities_of(PLATFORMS)[platform]
        harm = self.apps.sensitivity[victim] * limit * -np.expm1(-share / limit)
        ratio: Floats = 1.0 + (0.6 + 0.4 * load) * harm.sum(axis=1)
        return ratio


def capacities_of(platforms: tuple[Platform, ...]) -> Floats:
    """(platforms, hidden resources) what a node has of each, in usage's units."""
    return np.array(
        [[p.cores, p.llc_bytes, p.memory_bandwidth_bytes_s, p.disk_bytes_s, p.nic_bytes_s] for p in platforms]
    )


def counters(
    apps: Apps, app: Ints, load: Floats, *, slowdown: Floats, platform: Ints, rng: np.random.Generator
) -> dict[str, Floats]:
    """What counters show of containers that a law slows down; the same for every law.

    Args:
        apps: hidden truth.
        app: (n,) app of each container.
        load: (n,) load as a share of its peak.
        slowdown: (n,) true ratios >= 1.
        platform: (n,) platform of its node.
        rng: noise of the counters.

    Returns:
        Usage columns by name, (n,) each in usage's units; NaN where an app has none.

    Raises:
        Nothing.

    Source: ours; times per request and cycles grow with the slowdown, what is used grows with the load.
    """

    def noisy(values: Floats, spread: float = 0.03) -> Floats:
        return values * rng.lognormal(0.0, spread, len(values))

    cpu, llc, memory_bandwidth, disk, net = (noisy(column) for column in (apps.demand[app] * load[:, None]).T)
    speed = np.array([1.0, 1.1, 0.9])[platform]
    shown = np.where(apps.cpi_blind[app], rng.lognormal(0.0, 0.1, len(app)), slowdown)
    qps = noisy(apps.qps[app] * load, 0.02)
    return {
        "cpu_cores": cpu,
        "llc_occupancy_bytes": llc,
        "memory_bandwidth_bytes_s": memory_bandwidth,
        "memory_bytes": noisy(1e9 * (1.0 + apps.demand[app, 0]), 0.01),
        "disk_read_bytes_s": 0.4 * disk,
        "disk_write_bytes_s": 0.6 * disk,
        "disk_ios_s": disk / 65536.0,
        "net_rx_bytes_s": 0.5 * net,
        "net_tx_bytes_s": 0.5 * net,
        "cpi": noisy(apps.cpi[app] * speed * shown),
        "llc_mpki": noisy(2.0 * apps.demand[app, 2] / 5e9, 0.05),
        "qps": qps,
        "cpu_us_per_request": noisy(1e6 * apps.demand[app, 0] / apps.qps[app] * speed * slowdown),
        "rt_mean_ms": noisy(apps.rt_ms[app] * (1.0 + 0.5 * load**2) * speed * slowdown, 0.05),
        "rt_p99_ms": noisy(4.0 * apps.rt_ms[app] * (1.0 + load**2) * speed * slowdown**1.3, 0.15),
    }
