"""Pairs: how much each workload slows down next to each other one, from some measured pairs and from running alone.

Every workload has four hidden properties: how sensitive and how aggressive it is on the whole, and a few ways in which
it is sensitive and aggressive. A pair's slowdown, in log or as the speed that is left, is the victim's and the
aggressor's own part and the product of the ways. Two copies of a workload want the same at the same time: co-located,
they have one more term, equal for all. All properties of a workload are drawn from one distribution around what its
profile says, so that a workload seen in one role only, or never, is placed by what goes together in the others.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import wishart

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Scale = Literal["log", "speed"]
"""What properties add up to: log slowdown, or minus the speed that is left, -1 / slowdown."""

CAPPED_SHARE, CAPPED_CELLS = 0.04, 3
"""As many cells of exactly the smallest value mean that smaller ones were cut off."""
TAIL = 4.0
"""Degrees of freedom of the noise: heavy tails, so that single pairs do not rule."""
NOISE_SHARE = 0.05
"""What is expected of the noise, as a share of the labels' standard deviation."""
ITSELF_SHARE = 0.3
"""Expected effect of co-location with itself, as a share of the labels' standard deviation."""
SLOWEST = -0.01
"""Speed that is left at the least, where properties add up to speed."""
CALM = 3
"""How many workloads' worth of evidence speak for properties that do not go together."""
PLATFORM_SCALE = 2.0
"""How much more alike a workload is to itself on another platform than to others."""
PROFILE_PARTS = 3
"""Principal components that profiles are reduced to."""


@dataclass(frozen=True)
class Cells:
    """Measured pairs, (n,) each: entities that are slowed down, entities co-located with them, log slowdowns."""

    victim: Ints
    aggressor: Ints
    log_slowdown: Floats

    def take(self, chosen: Flags) -> "Cells":
        """The chosen pairs, (n,) flags."""
        return Cells(self.victim[chosen], self.aggressor[chosen], self.log_slowdown[chosen])

    def labels(self, scale: Scale) -> Floats:
        """(n,) slowdowns in a scale, larger is worse."""
        return self.log_slowdown if scale == "log" else -np.exp(-self.log_slowdown)


@dataclass(frozen=True)
class PairConfig:
    """How long to sample.

    Args:
        ways: dimension of the ways to be sensitive and aggressive.
        warm_up: draws thrown away.
        draws: draws kept.
        level: share of pairs that a bound must cover.
        scale: what properties add up to.
        way_share: what is expected of the ways, as a share of the labels' standard deviation.
    """

    ways: int = 4
    warm_up: int = 400
    draws: int = 600
    level: float = 0.9
    scale: Scale = "log"
    way_share: float = 0.3


@dataclass(frozen=True)
class PairPrediction:
    """(m,) expected log slowdown of pairs, and what their measurement stays below, and above, at the config's level."""

    log_mean: Floats
    upper: Floats
    lower: Floats


@dataclass(frozen=True)
class PairModel:
    """Draws from the posterior.

    Args:
        latent: (draws, entities, 2 + 2 ways) own part and ways as a victim, then as an aggressor.
        level: (draws, 2) mean of all pairs, and what co-location with itself adds; all in the config's scale.
        noise: (draws,) scale of the noise.
        floor: value below which measurements are cut off; -inf where they are not.
        config: how it was sampled.
    """

    latent: Floats
    level: Floats
    noise: Floats
    floor: float
    config: PairConfig

    def predict(self, victim: Ints, aggressor: Ints, rng: np.random.Generator) -> PairPrediction:
        """What pairs of known or unknown workloads will measure.

        Args:
            victim: (m,) entities.
            aggressor: (m,) entities.
            rng: draws the noise of the bound.

        Returns:
            (m,) means and bounds.

        Raises:
            IndexError: an entity was not described at the fit.

        Source: ours, docs/decisions/0018-pairs.md.
        """
        said = self._drawn(victim, aggressor)
        measured = said + self.noise[:, None] * rng.standard_t(TAIL, said.shape)
        mean = self._log(said).mean(axis=0)
        level = self.config.level
        lower, upper = np.quantile(self._log(measured), [1 - level, level], axis=0)
        return PairPrediction(mean, np.maximum(upper, mean), np.minimum(lower, mean))

    def expect(self, victim: Ints, aggressor: Ints) -> Floats:
        """(m,) the means of `predict` alone."""
        mean: Floats = self._log(self._drawn(victim, aggressor)).mean(axis=0)
        return mean

    def _drawn(self, victim: Ints, aggressor: Ints) -> Floats:
        """(draws, m) values in the config's scale, before noise."""
        said: Floats = np.stack([_said(t, victim, aggressor) for t in self.latent])
        return said + self.level @ _common(victim, aggressor).T

    def _log(self, values: Floats) -> Floats:
        """Values in the config's scale as log slowdown."""
        cut = np.maximum(values, self.floor)
        return cut if self.config.scale == "log" else -np.log(-np.minimum(cut, SLOWEST))


def describe(workload: Ints, platform: Ints, profiles: Floats) -> Floats:
    """What is known of entities before any pair is measured.

    Args:
        workload: (e,) workload of each entity; an entity is a workload on a platform.
        platform: (e,) platform.
        profiles: (workloads, p) numbers measured alone; NaN where missing, p may be 0.

    Returns:
        (e, q) principal components of the signed logs of the profiles; where there are several platforms also which
        workload and which platform it is, so that platforms learn from each other.

    Raises:
        Nothing.

    Source: Simm et al., "Macau: scalable Bayesian factorization with side information", 2017.
    """
    parts = [_components(profiles)[workload]]
    if len(np.unique(platform)) > 1:
        parts += [PLATFORM_SCALE * _one_hot(workload), _one_hot(platform)]
    return np.column_stack(parts)


def fit_pairs(cells: Cells, described: Floats, config: PairConfig, rng: np.random.Generator) -> PairModel:
    """Sample the hidden properties.

    Args:
        cells: n >= 2 measured pairs.
        described: (e, q) from `describe`, every entity that will ever be asked about.
        config: how long.
        rng: of everything drawn; the same seed gives the same model.

    Returns:
        The draws. Pairs at exactly the smallest value count as "at most this" where there are many of them.

    Raises:
        numpy.linalg.LinAlgError: labels are not finite.

    Source: Salakhutdinov and Mnih, "Bayesian probabilistic matrix factorization", ICML 2008; Tobin, Econometrica 1958
        (cut-off values); both roles in one distribution: ours, docs/decisions/0018-pairs.md.
    """
    chain = _Chain.start(cells, described, config, rng)
    kept = []
    for number in range(config.warm_up + config.draws):
        chain.step()
        if number >= config.warm_up:
            kept.append((chain.latent.copy(), chain.level, chain.precision**-0.5))
    latent, level, noise = zip(*kept, strict=True)
    floor = float(chain.measured.min()) if chain.capped.any() else -np.inf
    return PairModel(np.stack(latent), np.stack(level), np.array(noise), floor, config)


@dataclass(slots=True)
class _Chain:
    """The state of the Gibbs sampler; every method draws one part given all others."""

    cells: Cells
    measured: Floats
    common: Floats
    described: Floats
    rng: np.random.Generator
    shape: Floats
    capped: Flags
    latent: Floats
    expected: Floats
    covariance: Floats
    level: Floats
    precision: float
    weight: Floats
    label: Floats

    @classmethod
    def start(cls, cells: Cells, described: Floats, config: PairConfig, rng: np.random.Generator) -> "_Chain":
        y = cells.labels(config.scale)
        spread = max(float(y.std()), 1e-6)
        low = y <= y.min() + 1e-9
        role = np.r_[0.5 * spread**2, np.full(config.ways, config.way_share * spread)]
        part = np.r_[role, role]
        return cls(
            cells=cells,
            measured=y,
            common=_common(cells.victim, cells.aggressor),
            described=described,
            rng=rng,
            shape=np.diag(part) * CALM,
            capped=low if low.sum() >= max(CAPPED_CELLS, CAPPED_SHARE * len(y)) else np.zeros(len(y), np.bool_),
            latent=rng.normal(0.0, 0.3 * np.sqrt(spread), (len(described), len(part))),
            expected=np.zeros((len(described), len(part))),
            covariance=np.diag(part),
            level=np.array([y.mean(), 0.0]),
            precision=1 / (2 * NOISE_SHARE * spread) ** 2,
            weight=np.ones(len(y)),
            label=y.copy(),
        )

    def step(self) -> None:
        half = self.latent.shape[1] // 2
        self._draw_role(self.cells.victim, self.cells.aggressor, slice(0, half), slice(half, None))
        self._draw_role(self.cells.aggressor, self.cells.victim, slice(half, None), slice(0, half))
        self._draw_noise()
        self._draw_prior()

    def _draw_role(self, who: Ints, partner: Ints, own: slice, other: slice) -> None:
        """One role of every entity, given its other role and everybody else: a linear regression each."""
        inverse = np.linalg.inv(self.covariance)
        prior = inverse[own, own]
        deviation = (self.latent - self.expected)[:, other]
        mean = self.expected[:, own] - np.linalg.solve(prior, inverse[own, other] @ deviation.T).T
        factor = self.latent[partner, other]
        x = np.column_stack([np.ones(len(who)), factor[:, 1:]])
        strength = self.precision * self.weight
        left = self.label - self.common @ self.level - factor[:, 0]
        gram = _sums(who, strength[:, None, None] * x[:, :, None] * x[:, None, :], len(mean)) + prior
        pull = _sums(who, (strength * left)[:, None] * x, len(mean)) + mean @ prior
        root = np.linalg.cholesky(gram)
        noise = np.linalg.solve(root.transpose(0, 2, 1), self.rng.normal(size=(*mean.shape, 1)))
        self.latent[:, own] = (np.linalg.solve(gram, pull[:, :, None]) + noise)[:, :, 0]

    def _draw_level(self, left: Floats) -> None:
        """What all pairs share, given what the properties of their workloads leave."""
        spread = max(float(self.measured.std()), 1e-6)
        weighed = self.common.T * (self.precision * self.weight)
        covariance = np.linalg.inv(weighed @ self.common + np.diag([0.0, (ITSELF_SHARE * spread) ** -2]))
        self.level = covariance @ weighed @ left + np.linalg.cholesky(covariance) @ self.rng.normal(size=2)

    def _draw_noise(self) -> None:
        """The common level, what lies behind cut-off values, the noise and each cell's share of it."""
        y, rng = self.measured, self.rng
        said = _said(self.latent, self.cells.victim, self.cells.aggressor)
        self._draw_level(self.label - said)
        said = said + self.common @ self.level
        strength = self.precision * self.weight
        scale = strength[self.capped] ** -0.5
        below = rng.random(len(scale)) * ndtr((y[self.capped] - said[self.capped]) / scale)
        self.label[self.capped] = said[self.capped] + scale * ndtri(np.maximum(below, 1e-300))
        error = (self.label - said) ** 2
        spread = max(float(y.std()), 1e-6)
        rate = 2 * (NOISE_SHARE * spread) ** 2 + 0.5 * float(self.weight @ error)
        self.precision = rng.gamma(2 + len(y) / 2, 1 / rate)
        self.weight = rng.gamma((TAIL + 1) / 2, 2 / (TAIL + self.precision * error))

    def _draw_prior(self) -> None:
        """What a description says of the properties, and how they vary around it."""
        entities, width = self.latent.shape
        if self.described.shape[1]:
            gram = np.linalg.inv(self.described.T @ self.described + np.eye(self.described.shape[1]))
            mean = gram @ self.described.T @ self.latent
            drawn = self.rng.normal(size=mean.shape)
            slope = mean + np.linalg.cholesky(gram) @ drawn @ np.linalg.cholesky(self.covariance).T
            self.expected = self.described @ slope
        deviation = self.latent - self.expected
        scatter = np.linalg.inv(self.shape + deviation.T @ deviation)
        self.covariance = np.linalg.inv(wishart.rvs(width + 1 + CALM + entities, scatter, random_state=self.rng))


def _common(victim: Ints, aggressor: Ints) -> Floats:
    """(m, 2) what all pairs share: 1, and whether a workload is co-located with itself."""
    return np.column_stack([np.ones(len(victim)), victim == aggressor])


def _said(latent: Floats, victim: Ints, aggressor: Ints) -> Floats:
    """(m,) value of each pair in addition to what all share."""
    half = latent.shape[1] // 2
    own, other = latent[victim, :half], latent[aggressor, half:]
    total: Floats = own[:, 0] + other[:, 0] + (own[:, 1:] * other[:, 1:]).sum(axis=1)
    return total


def _sums(who: Ints, values: Floats, count: int) -> Floats:
    """Values of the first axis added up by entity."""
    total = np.zeros((count, *values.shape[1:]))
    np.add.at(total, who, values)
    return total


def _components(profiles: Floats) -> Floats:
    """(w, p) -> (w, at most PROFILE_PARTS) standardised principal components; missing counts as the mean."""
    known = profiles[:, np.isfinite(profiles).any(axis=0)]
    if not known.shape[1]:
        return np.zeros((len(profiles), 0))
    size = np.nanmedian(np.abs(known), axis=0)
    logs = np.sign(known) * np.log1p(np.abs(known) / np.where(size > 0, size, 1.0))
    centred = np.nan_to_num(logs - np.nanmean(logs, axis=0))
    spread = centred.std(axis=0)
    left, _, _ = np.linalg.svd(centred[:, spread > 0] / spread[spread > 0], full_matrices=False)
    components: Floats = left[:, :PROFILE_PARTS] * np.sqrt(len(profiles))
    return components


def _one_hot(codes: Ints) -> Floats:
    flags: Floats = np.eye(int(codes.max()) + 1)[codes]
    return flags
