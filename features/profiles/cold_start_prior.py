"""Cold-start prior: expected profile of a little-known app, by all apps, its team, and its other platforms. Kernel.

On a platform an app is expected between the mean of all apps and that of its team. It is the closer to its team's, the
more teams differ compared with apps within a team. An app that ran elsewhere is expected to differ from that as it does
there, the more so the more alike apps are to themselves. The weights of teams and other platforms are learnt from the
profiles, time by time; uninformative teams get no weight. Means are of log(1 + value): a few apps are slowed down many
times as much as most. Sensitivities by labels of waiting count only in clusters with few apps of better ones:
waiting knows no harm through caches, and its level is uncertain.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros, side_by_side
from features.columnar.asof_join import stands_until
from features.columnar.composite_keys import dense, joint, ranks, rising
from features.labels.slowdown import WAITING
from features.profiles.shrinkage import Nested, nested, sums
from features.schema.catalog import EXPECTED, SENSITIVITIES

ENOUGH = 6
"""Apps whose sensitivities are known by better labels than waiting: so many say more than they and all others do."""


def expected(keys: pa.Table, time_us: Ints, profiles: pa.Table) -> Floats:
    """What is expected of apps on platforms, as of each time.

    Args:
        keys: cluster, app, team and platform, (n,) rows. A null app is unknown. The team counts for an app only where
            its profiles have none.
        time_us: (n,) times; only profiles as of then or before count.
        profiles: rows of `profiles`, any order.

    Returns:
        (n, len(EXPECTED)) in the units of `profiles`; NaN without a platform, and where no app in the cluster is known.
        It lies within what is known of apps in the cluster. Meant for values that the app's own profile on the platform
        does not have.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0032-kin.md; shrinkage by variance components: Efron and Morris, JASA 1973.
    """
    return _by_time(keys, time_us, profiles, _Known.expected)


def expected_of_new(keys: pa.Table, time_us: Ints, profiles: pa.Table) -> Floats:
    """As `expected`, had the app never run anywhere: its own profiles count for nothing but for its team."""
    return _by_time(keys, time_us, profiles, _Known.expected_of_new)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many clusters and apps there are, and in each cluster teams and platforms, with one for none and for all."""

    clusters: int
    apps: int
    teams: int
    platforms: int


@dataclass(frozen=True, slots=True)
class _Codes:
    """(n,) codes of rows, and how many there are.

    Args:
        cluster: of the row.
        app: of cluster and app, -1 where it is missing.
        team: within the cluster, the last one where it is missing.
        platform: within the cluster, the last one where it is missing: it stands for all platforms.
        sizes: of all of them.
    """

    cluster: Ints
    app: Ints
    team: Ints
    platform: Ints
    sizes: _Sizes

    def take(self, rows: Ints) -> "_Codes":
        """Some of the rows."""
        return _Codes(self.cluster[rows], self.app[rows], self.team[rows], self.platform[rows], self.sizes)

    def everywhere(self) -> "_Codes":
        """The same on all platforms."""
        return replace(self, platform=np.full(len(self.platform), self.sizes.platforms - 1))

    def place(self) -> Ints:
        """(n,) code of cluster and platform."""
        return self.cluster * self.sizes.platforms + self.platform

    def team_there(self) -> Ints:
        """(n,) code of cluster, platform and team, -1 without a team."""
        return np.where(self.team < self.sizes.teams - 1, self.place() * self.sizes.teams + self.team, -1)


def _by_time(keys: pa.Table, time_us: Ints, profiles: pa.Table, ask: Callable[["_Known", _Codes], Floats]) -> Floats:
    """(n, len(EXPECTED)) answers for each key from the profiles that stood at its time."""
    found = np.full((keys.num_rows, len(EXPECTED)), np.nan)
    ever = np.array([i for i, c in enumerate(EXPECTED) if profiles[c].null_count < profiles.num_rows], np.int64)
    if not keys.num_rows or not len(ever):
        return found
    asking, known = _coded(keys, profiles)
    one = joint([known.app, known.platform])
    order = rising(one, micros(profiles["as_of"]))
    known, since = known.take(order), micros(profiles["as_of"])[order]
    until = stands_until(one[order], since)
    waited = np.asarray(pc.fill_null(pc.equal(profiles["kind"].take(pa.array(order)), WAITING), fill_value=False))
    is_sensitivity = np.array([EXPECTED[i] in SENSITIVITIES for i in ever])
    times = np.unique(since)
    at = np.searchsorted(times, time_us, side="right") - 1
    at[asking.platform == asking.sizes.platforms - 1] = -1
    for number in np.unique(at[at >= 0]).tolist():
        stood = np.flatnonzero((since <= times[number]) & (times[number] < until))
        rows = pa.array(order[stood])
        values = side_by_side([floats(profiles[EXPECTED[i]].take(rows)) for i in ever])
        by_better = ~waited[stood] & np.isfinite(values[:, is_sensitivity]).any(axis=1)
        worse = waited[stood] & _enough(known.take(stood[by_better]))[known.cluster[stood]]
        better = np.where(worse[:, None] & is_sensitivity, np.nan, values)
        asked = np.flatnonzero(at == number)
        answer = np.full((len(asked), len(ever)), np.nan)
        for some in (better, values) if worse.any() else (values,):
            then = _known(known.take(stood), since[stood], np.log1p(some))
            answer = np.where(np.isfinite(answer), answer, ask(then, asking.take(asked)))
        found[np.ix_(asked, ever)] = np.expm1(answer)
    return found


def _enough(better: _Codes) -> NDArray[np.bool_]:
    """(clusters,) which have ENOUGH apps in these rows."""
    _, first = np.unique(better.app, return_index=True)
    return np.bincount(better.cluster[first], minlength=better.sizes.clusters) >= ENOUGH


def _coded(keys: pa.Table, profiles: pa.Table) -> tuple[_Codes, _Codes]:
    """Codes of both, the same for the same names."""
    columns = ["cluster", "app", "team", "platform"]
    both = pa.concat_tables([keys.select(columns), profiles.select(columns)], promote_options="default")
    name = {c: ranks(both[c]) for c in columns}
    there = {c: np.asarray(both[c].is_valid()) for c in columns}
    cluster, app = dense(name["cluster"]), dense(joint([name["cluster"], name["app"]]))
    teams, platforms = (int(name[c].max()) + 2 for c in ("team", "platform"))
    whole = _Codes(
        cluster=cluster,
        app=np.where(there["app"], app, -1),
        team=np.where(there["team"], name["team"], teams - 1),
        platform=np.where(there["platform"], name["platform"], platforms - 1),
        sizes=_Sizes(int(cluster.max()) + 1, int(app.max()) + 1, teams, platforms),
    )
    rows = np.arange(both.num_rows)
    return whole.take(rows[: keys.num_rows]), whole.take(rows[keys.num_rows :])


@dataclass(frozen=True, slots=True)
class _Prior:
    """Values of apps by platform and team.

    Args:
        by_team: sums of them; those of all platforms together are means of each app's.
        own: (apps + 1, platforms, k) what they were made of; NaN for the last app, which is no app.
        team: (apps + 1,) from the profiles; the last code where they have none, and for the last app.
    """

    by_team: Nested
    own: Floats
    team: Ints

    def expected(self, asked: _Codes) -> Floats:
        """(n, k) of apps of the team on the platform, where none is known there on all platforms."""
        return self._or_everywhere(asked, np.full(len(asked.app), -1))

    def expected_of_others(self, asked: _Codes) -> Floats:
        """The same without the app itself."""
        return self._or_everywhere(asked, asked.app)

    def _or_everywhere(self, asked: _Codes, left_out: Ints) -> Floats:
        own = self.team[asked.app]
        has_team = own < asked.sizes.teams - 1
        of_team = replace(asked, team=np.where(has_team, own, asked.team))
        here, everywhere = (self._drawn(codes, left_out, has_team) for codes in (of_team, of_team.everywhere()))
        return np.where(np.isfinite(here), here, everywhere)

    def _drawn(self, asked: _Codes, left_out: Ints, inside: NDArray[np.bool_]) -> Floats:
        moments = self.by_team.at(asked.place(), asked.team_there()).without(self.own[left_out, asked.platform], inside)
        mean = moments.mean()
        return mean + moments.weight(untold=0.0) * (moments.own_mean() - mean)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known at one time.

    Args:
        prior: values of all apps.
        carried: (apps + 1, k) how far an app is expected from its prior, by its other platforms.
        least: (clusters, k) smallest known value.
        most: (clusters, k) largest.
    """

    prior: _Prior
    carried: Floats
    least: Floats
    most: Floats

    def expected(self, asked: _Codes) -> Floats:
        """(n, k) of apps; see `expected`."""
        whole = self.prior.expected(asked) + self.carried[asked.app]
        return np.clip(whole, self.least[asked.cluster], self.most[asked.cluster])

    def expected_of_new(self, asked: _Codes) -> Floats:
        """(n, k) of apps as if they had never run."""
        return self.prior.expected_of_others(asked)


def _known(codes: _Codes, since: Ints, values: Floats) -> _Known:
    """Known values of profiles, the newest of each app and platform, sorted by both; (n, k) scaled values."""
    prior, sizes = _prior(codes, values, _teams(codes, since)), codes.sizes
    apart = values - prior.expected_of_others(codes)
    apps = np.arange(sizes.apps + 1)
    cluster_of = np.zeros(len(apps), np.int64)
    cluster_of[codes.app] = codes.cluster
    of_app = nested(apart, codes.cluster, codes.app, wholes=sizes.clusters, groups=len(apps)).at(cluster_of, apps)
    least, most = np.full((2, sizes.clusters, values.shape[1]), np.nan)
    np.fmin.at(least, codes.cluster, values)
    np.fmax.at(most, codes.cluster, values)
    return _Known(prior, of_app.weight(untold=1.0) * of_app.own_mean(), least, most)


def _teams(codes: _Codes, since: Ints) -> Ints:
    """(apps + 1,) the team in each app's newest profile that has one, the last code where none has."""
    found = np.full(codes.sizes.apps + 1, codes.sizes.teams - 1)
    with_team = np.flatnonzero(codes.team < codes.sizes.teams - 1)
    newest_last = with_team[rising(codes.app[with_team], since[with_team])]
    found[codes.app[newest_last]] = codes.team[newest_last]
    return found


def _prior(codes: _Codes, values: Floats, team_of: Ints) -> _Prior:
    codes, sizes = replace(codes, team=team_of[codes.app]), codes.sizes
    count = sums(np.isfinite(values), codes.app, sizes.apps)
    with np.errstate(invalid="ignore"):
        mean = sums(values, codes.app, sizes.apps) / count
    first = np.unique(codes.app, return_index=True)[1]
    everywhere, of_app = codes.take(first).everywhere(), mean[codes.app[first]]
    own = np.full((sizes.apps + 1, sizes.platforms, values.shape[1]), np.nan)
    place, team = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for part, of_part in ((codes, values), (everywhere, of_app)):
        own[part.app, part.platform] = of_part
        place, team = np.append(place, part.place()), np.append(team, part.team_there())
    wholes = sizes.clusters * sizes.platforms
    whole = np.concatenate([values, of_app])
    return _Prior(nested(whole, place, team, wholes=wholes, groups=wholes * sizes.teams), own, team_of)
